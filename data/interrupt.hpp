#pragma once
// Ctrl-C and `kill` ask work to come to an end where nothing is lost; a second one ends it at once.

void catch_interrupts();
bool interrupted();
