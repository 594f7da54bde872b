"""`ariane cluster up`: a layout of name server and brokers as processes of this machine, under one supervisor.

layout        which members a layout has, and their options
members       the processes: start, probe, signal, and find those that an earlier supervisor left
supervisor    starts all, serves the control socket, ends all
control       the requests of `ariane cluster status|kill|stop|restart|down`
"""
