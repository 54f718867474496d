# dev/peers.sh builds and runs it.
$(OUT)/dev/peers/peers: %: %.o $(LIBRARY)
	$(call SAY,link  $@)$(LINK)
