"""What a file is asked: is the value right, the gradient, what the exercise demands besides, and how fast is it."""
