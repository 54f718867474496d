# Only for Linux with glibc, because the library is loaded between the program and its C library.
faults: $(OUT)/train_gpt $(OUT)/preload.so  ## make system calls and allocations fail, kill runs, forge files; ARGS=forged
	@python3 dev/faults/faults.py $^ $(ARGS)

$(OUT)/preload.so: dev/faults/preload.c
	$(call SAY,cc    $<)$(CC) -Wall -Wextra -O1 -shared -fPIC -o $@ $< -ldl
