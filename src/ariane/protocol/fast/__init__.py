"""The compiled byte work of sends and pulls.

    decoder          decodes the headers of a connection: the same commands as `command.decode_header`
    shape            reads a header that differs from an earlier one only in known fields
    hot_headers      typed headers straight from JSON
    sending, pulling the parsed header of a send or a pull, one value for the layers above
    property_form    properties that differ in the unique key alone
    matching, digits compare and write bytes in place

`tests/protocol/test_shape.py` compares the fast decoder with the general one.
"""
