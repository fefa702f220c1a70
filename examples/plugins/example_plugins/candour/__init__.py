"""The principle of candour: the folder is the principle."""
