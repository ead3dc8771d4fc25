from twofold.cli import main

raise SystemExit(main())
