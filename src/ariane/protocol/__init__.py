"""RocketMQ's wire and store formats. Bytes in, values out; no I/O.

frame, frame_head    frames of a connection: decoder and encoder
command, json_header one request or response: the general decoder and encoder of headers
headers/, bodies/    typed headers and JSON bodies of each request code
codes                request and response codes, versions, languages
units, batch         the message unit of commitlog and pulls; the body of a batch
properties, ids      property strings; hosts, offset ids and unique ids
fastjson, java       the JSON dialect and the arithmetic of Java peers
checksum, native     CRC-32; machine integers of compiled modules
fast/                the compiled byte work of sends and pulls, with the general decoder's interface
"""
