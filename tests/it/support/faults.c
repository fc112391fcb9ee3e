/* Disk faults for a server that is started with this library before libc (LD_PRELOAD): the n-th write,
 * flush or rename that touches a file below FAULTS_FOLDER fails. FAULTS_FILE is shared with the test,
 * which sets what fails and reads how often it did. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { WRITE, FLUSH, RENAME };

/* `faults.rs` writes the same. */
struct control {
  _Atomic long left[3]; /* by kind: the call that fails, counted from 1; 0: none */
  _Atomic long error;
  _Atomic long stays; /* whether each later one fails, too */
  _Atomic long torn;  /* whether a write that fails leaves its first half */
  _Atomic long hits;
};

static struct control *control;
static const char *folder;

__attribute__((constructor)) static void start(void) {
  const char *file = getenv("FAULTS_FILE");
  folder = getenv("FAULTS_FOLDER");
  int shared = file ? open(file, O_RDWR) : -1;
  if (shared < 0 || !folder) return;
  void *at = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
  if (at != MAP_FAILED) control = at;
}

static int is_below(const char *path) { return strncmp(path, folder, strlen(folder)) == 0; }

static int is_ours(int file) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return is_below(path);
}

static int is_due(enum kind kind) {
  long left = atomic_load(&control->left[kind]);
  while (left > 0) {
    if (left == 1 && atomic_load(&control->stays)) break;
    if (atomic_compare_exchange_weak(&control->left[kind], &left, left - 1)) break;
  }
  if (left != 1) return 0;
  atomic_fetch_add(&control->hits, 1);
  return 1;
}

static int fails_on(int file, enum kind kind) {
  return control && atomic_load(&control->left[kind]) > 0 && is_ours(file) && is_due(kind);
}

static int failure(void) {
  errno = (int)atomic_load(&control->error);
  return -1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static ssize_t torn(int file, const void *from, size_t size, off_t at) {
  if (atomic_load(&control->torn)) {
    if (at < 0) REAL(write)(file, from, size / 2);
    else REAL(pwrite64)(file, from, size / 2, at);
  }
  return failure();
}

ssize_t write(int file, const void *from, size_t size) {
  return fails_on(file, WRITE) ? torn(file, from, size, -1) : REAL(write)(file, from, size);
}
ssize_t pwrite(int file, const void *from, size_t size, off_t at) {
  return fails_on(file, WRITE) ? torn(file, from, size, at) : REAL(pwrite)(file, from, size, at);
}
ssize_t pwrite64(int file, const void *from, size_t size, off64_t at) {
  return fails_on(file, WRITE) ? torn(file, from, size, at) : REAL(pwrite64)(file, from, size, at);
}
ssize_t writev(int file, const struct iovec *parts, int count) {
  return fails_on(file, WRITE) ? failure() : REAL(writev)(file, parts, count);
}
int ftruncate(int file, off_t size) {
  return fails_on(file, WRITE) ? failure() : REAL(ftruncate)(file, size);
}
int ftruncate64(int file, off64_t size) {
  return fails_on(file, WRITE) ? failure() : REAL(ftruncate64)(file, size);
}
int fsync(int file) { return fails_on(file, FLUSH) ? failure() : REAL(fsync)(file); }
int fdatasync(int file) { return fails_on(file, FLUSH) ? failure() : REAL(fdatasync)(file); }

static int fails_at(const char *path) {
  return control && atomic_load(&control->left[RENAME]) > 0 && is_below(path) && is_due(RENAME);
}
int rename(const char *old, const char *new) {
  return fails_at(new) ? failure() : REAL(rename)(old, new);
}
int link(const char *old, const char *new) { return fails_at(new) ? failure() : REAL(link)(old, new); }
int linkat(int olds, const char *old, int news, const char *new, int flags) {
  return fails_at(new) ? failure() : REAL(linkat)(olds, old, news, new, flags);
}
