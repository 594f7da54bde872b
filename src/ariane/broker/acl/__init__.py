"""Access control of a broker: the rule of every request code, and the requests that change the rules.

table      request code -> the accounts that may send it, and the rights it needs
handler    codes 50 to 54: administration of the rules
access     puts rules, gate and handler together from the broker's options
"""
