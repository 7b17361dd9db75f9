/* Preloaded into PostgreSQL: delays each fdatasync by SYNC_US microseconds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

int fdatasync(int file) {
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  const char *more = getenv("SYNC_US");
  if (more != NULL) usleep(atoi(more));
  return real(file);
}
