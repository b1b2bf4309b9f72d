"""What lookers on training see by: graphs near their roots, layers, owners of parameters, the order of a step."""
