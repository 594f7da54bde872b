"""`ariane doctor`: looks at a configuration, this machine and a running cluster, and says what is wrong.

finding     what was found, and what to do about it
local       the configuration, the store folder and the limits of this machine
cluster     name servers and brokers that run
command     the command and its output
"""

from ariane.cli.doctor.command import doctor

__all__ = ["doctor"]
