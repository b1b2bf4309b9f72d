"""What an autograd error tells: the scene of an exception, and locators that say whose fault it was."""
