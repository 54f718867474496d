NO_COMPILER += report watch tensorboard test-report

report: .venv/.report  ## write report.html of RUN=DIR, of several runs, or of the newest
	@$(PYTHON) dev/report/report.py $(RUN)

watch: .venv/.report  ## watch runs in a browser while they train; RUN=DIR, or the newest
	@$(PYTHON) dev/report/watch.py $(RUN) $(ARGS)

tensorboard: .venv/.report  ## write metrics for TensorBoard; RUN=DIR, or the newest
	@$(PYTHON) dev/report/events.py $(RUN)

test-report: .venv/.report  ## test reports in a browser, recompute the numbers of studies and paper
	@$(PYTHON) dev/report/test_report.py $(ARGS)

# If pip cannot reach its packages, the system's packages do.
.venv/.report: dev/report/requirements.txt | $(PYTHON)
	@$(PIP) || { echo 'pip could not: trying the packages of this system'; dev/setup.sh report --config build/plots && \
	  $$(cat build/plots) -m venv --clear --system-site-packages .venv && \
	  $(PYTHON) -c 'import plotly, pandas, matplotlib, scipy'; }
	@touch $@
