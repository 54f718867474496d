#pragma once
// How this process appears to the system, and how long its threads spin.

// Call first in main(). Names the process after the program as typed: ps shows `exe` for one that is started as
// /proc/self/exe, and the loader for one that is started by an explicit loader. Then takes back the variable below.
void begin_process(const char* typed);

// GNU's OpenMP lets threads spin for several milliseconds while they wait. That costs nothing on an idle machine, but
// makes the program ten times slower when other processes run; no spinning at all costs small models a tenth. Linking
// this file limits the time to about 0.1 ms if nothing else runs when the program starts, else to a few µs. OpenMP
// reads GOMP_SPINCOUNT once, before main(), and so this sets it earlier still. Does nothing if the user has set how
// threads wait or where they run (OMP_WAIT_POLICY, GOMP_SPINCOUNT, OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY).
