// Marks what liblockstep.so exports; everything else is hidden.
#pragma once

#if defined(_WIN32)
#define LOCKSTEP_API
#else
#define LOCKSTEP_API __attribute__((visibility("default")))
#endif
