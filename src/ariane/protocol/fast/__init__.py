"""The compiled byte work of sends and pulls.

    decoder          decodes the headers of a connection: the same commands as `command.decode_header`
    shape            reads a header that differs from an earlier one in known places only
    hot_headers      typed headers straight from JSON
    sending, pulling what a send or a pull asks for, one value for the layers above
    property_form    properties that differ in the unique key alone
    matching, digits compare and write bytes in place

`tests/protocol/test_shape.py` compares the fast decoder with the general one.
"""
