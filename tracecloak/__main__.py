"""`python -m tracecloak` is the command."""

import sys

from tracecloak.pipelines.commands.main import main

sys.exit(main())
