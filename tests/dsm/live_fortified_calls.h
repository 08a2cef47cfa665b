/* Calls with a size that the compiler knows, as a program compiled with _FORTIFY_SOURCE makes them. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

enum { kFortifiedBytes = 8192 };

/* `shared`: kFortifiedBytes of them. Returns the line of the first call that fails; 0: none. */
int braid_fortified_calls(char* shared);

#ifdef __cplusplus
}
#endif
