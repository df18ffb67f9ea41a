/* Preloaded into a server, it makes every sync take at least SLOW_SYNC_MS longer: a disk like an SD card. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static void wait_as_a_card_does(void) {
    const char *asked = getenv("SLOW_SYNC_MS");
    long ms = asked ? atol(asked) : 10;
    struct timespec pause = {ms / 1000, (ms % 1000) * 1000000L};
    nanosleep(&pause, NULL);
}

int fsync(int file) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    wait_as_a_card_does();
    return real(file);
}

int fdatasync(int file) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    wait_as_a_card_does();
    return real(file);
}
