# dev/peers.sh builds and runs it.
$(OUT)/dev/peers/peers: %: %.o $(OUT)/dev/peers/debug_state.o $(LIBRARY)
	$(call SAY,link  $@)$(LINK)

.PHONY: check-vocabularies
check-vocabularies: $(VENV)/.gguf build/train_gpt  ## compare our tokens with llama.cpp's test vectors
	@$(PYTHON) dev/peers/vocabularies.py $(ARGS)

.PHONY: check-hub
check-hub: $(VENV)/.huggingface $(VENV)/.gguf build/train_gpt  ## try 40 published models: in, three steps of training, and back
	@$(PYTHON) dev/peers/hub.py $(ARGS)

.PHONY: bench-fine-tuning
bench-fine-tuning: $(VENV)/.huggingface build/train_gpt  ## time fine-tuning beside PyTorch and peft
	@$(PYTHON) dev/peers/fine_tuning.py $(ARGS)
