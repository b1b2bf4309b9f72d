"""What Gradwright uses of torch that is private to it, or that differs between its versions; see NOTE [torch versions].

Nothing else in the package names such a thing: `capability` says what one is, each other file holds those of one kind,
and `listing` says what this torch has not.
"""
