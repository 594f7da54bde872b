"""The tests of Ariane, one folder for each part."""
