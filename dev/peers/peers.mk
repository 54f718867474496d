# dev/peers.sh builds and runs it.
$(OUT)/dev/peers/peers: %: %.o $(OUT)/dev/peers/debug_state.o $(LIBRARY)
	$(call SAY,link  $@)$(LINK)
