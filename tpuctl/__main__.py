"""`python -m tpuctl`."""

from tpuctl.cli import main

main.run()
