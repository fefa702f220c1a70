"""The findings of a scan as a store: read where they are, with what people say of them kept beside them."""
