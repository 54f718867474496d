#pragma once
// How this process appears to the system, and how long its threads spin.

// Call first in main(). Names the process after the program as typed; otherwise ps shows `exe` for a program started as
// /proc/self/exe, and the loader's name for one started through a loader. Also restores the environment variable that
// limit_spinning() (process.cpp) replaced.
void begin_process(const char* typed);

// GNU's OpenMP lets waiting threads spin for several milliseconds. That costs nothing on an idle machine, but makes the
// program ten times slower when other processes run. No spinning at all costs small models a tenth. So linking this
// file limits spinning to about 0.1 ms if nothing else runs when the program starts, and to a few µs otherwise. OpenMP
// reads GOMP_SPINCOUNT once, before main(), so it is set before that. Nothing changes if the user has set how threads
// wait or where they run (OMP_WAIT_POLICY, GOMP_SPINCOUNT, OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY).
