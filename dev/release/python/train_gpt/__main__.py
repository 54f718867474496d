"""The command `train_gpt`: this process becomes the program."""

import os
import sys
from typing import NoReturn

from . import Error, program


def main() -> NoReturn:
    try:
        path, environment = program()
    except Error as error:
        sys.exit(f"train_gpt: {error}")
    os.execve(path, ["train_gpt", *sys.argv[1:]], environment)


if __name__ == "__main__":
    main()
