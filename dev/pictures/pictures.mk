NO_COMPILER += pictures

pictures: .venv/.report  ## draw the pictures of the pages that need no training run
	@$(PYTHON) dev/pictures/draw.py $(ARGS)
