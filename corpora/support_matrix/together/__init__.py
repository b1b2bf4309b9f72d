"""Kinds of custom gradients under transforms, and transforms of transforms; torch's operators say what is right."""
