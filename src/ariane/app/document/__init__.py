"""An application as a document: AsyncAPI 3.0, as JSON and as a page."""
