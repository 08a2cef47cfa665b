#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/charge_kernels.h"

#define NOINLINE __attribute__((noinline, noclone))
enum { kMost = 4096 };

static int64_t numbers[kMost];
static double reals[kMost];
static char bytes[2 * kMost];

// --- Loops with a cost per element that follows the cost table.

static NOINLINE double sum_of(const double* a, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i];
  return sum;
}

static NOINLINE void quotients(int64_t* a, int64_t n, int64_t divisor) {
  for (int64_t i = 0; i < n; ++i) a[i] = a[i] / divisor;
}

static NOINLINE void roots(double* a, int64_t n) {
  for (int64_t i = 0; i < n; ++i) a[i] = __builtin_sqrt(__builtin_fabs(a[i]));
}

static void cost_table(void) {
  static const int64_t sizes[] = {0, 1, 1000, 2000};
  for (int k = 0; k < 4; ++k) {
    const int64_t n = opaque(sizes[k]);
    observe("start", n);
    observe("sum", (int64_t)sum_of(reals, n));
    quotients(numbers, n, opaque(3));
    observe("quotients", numbers[17]);
    roots(reals, n);
    observe("roots", (int64_t)(reals[17] * 1000));
    memcpy(bytes, bytes + kMost, (size_t)n);
    observe("memcpy", bytes[5]);
  }
}

// --- Loops.

static NOINLINE int64_t triangle(int64_t n) {
  int64_t sum = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i; j < n; ++j) sum += numbers[(i * 31 + j) % kMost];
  return sum;
}

static NOINLINE int64_t small_nest(int64_t n) {
  int64_t sum = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 5; ++k) sum ^= numbers[i] * j + (sum >> k);
  return sum;
}

static NOINLINE unsigned strides(unsigned from, unsigned to) {
  unsigned sum = 0;
  for (unsigned i = from; i != to; i += 3) sum += i;  // relies on wrap-around
  for (unsigned i = to; i-- > from;) sum ^= i;
  return sum;
}

static NOINLINE int64_t find(const int64_t* a, int64_t n, int64_t what) {
  for (int64_t i = 0; i < n; ++i)
    if (a[i] == what) return i;
  return -1;
}

static NOINLINE int64_t leaves_early(int64_t n) {
  int64_t sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      if ((i ^ j) == 37) break;
      if ((i + j) % 11 == 0) continue;
      sum += i * j;
      if (sum > 100000) goto out;
    }
    sum -= i;
  }
out:
  return sum;
}

static NOINLINE int64_t collatz(int64_t n) {
  int64_t steps = 0;
  do {
    n = n % 2 == 0 ? n / 2 : 3 * n + 1;
    ++steps;
  } while (n != 1);
  return steps;
}

// Too much code before the exit for the compiler to copy it in front of the loop and rotate the loop.
static NOINLINE int64_t exit_in_the_middle(int64_t n) {
  int64_t sum = 0;
  for (int64_t i = 0;; ++i) {
    sum += numbers[i];
    sum ^= numbers[i + 1] * 3 + numbers[i + 2] * 5 + numbers[i + 3] * 7 + numbers[i + 4] * 9;
    sum += numbers[i + 5] * 11 + numbers[i + 6] * 13 + numbers[i + 7] * 15 + numbers[i + 8] * 17;
    if (i >= n) break;
    sum ^= sum >> 3;
    numbers[i + 9] = sum & 0xffff;
  }
  return sum;
}

// --- Branches.

static NOINLINE int64_t pick(int64_t x) {
  switch (x % 9) {
    case 0:
      return x;
    case 1:
      x += 7;
      // fall through
    case 2:
      x *= 3;
      break;
    case 3:
      observe("in a switch", x);
      break;
    case 5:
      for (int64_t i = 0; i < x; ++i) x += numbers[i % 8] & 1;
      break;
    case 6:
      x = x / 5;
      break;
    default:
      x -= 1;
  }
  return x ^ 0x55;
}

static NOINLINE int64_t threaded(const unsigned char* code) {
  static void* const table[] = {&&add, &&twice, &&less, &&stop};
  int64_t x = 1;
#define NEXT goto* table[*code++]
  NEXT;
add:
  x += 13;
  NEXT;
twice:
  x *= 2;
  NEXT;
less:
  if (x > 50) x -= 50;
  NEXT;
stop:
  return x;
#undef NEXT
}

// A critical section is charged while the lock is held: the calls stand for lock() and unlock().
static NOINLINE int64_t critical_section(int64_t n) {
  int64_t x = n * 3;
  observe("took", x);
  for (int64_t i = 0; i < n; ++i) x += numbers[i];
  if (x % 2 == 0) x += 5;
  observe("gave", x);
  return x * n;
}

// --- Calls.

static NOINLINE int64_t fibonacci(int64_t n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

static NOINLINE int64_t ackermann(int64_t m, int64_t n) {
  if (m == 0) return n + 1;
  return n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}

static jmp_buf place;

static NOINLINE void jumps(int64_t n) {
  numbers[0] += n;
  if (n == 3) longjmp(place, 7);
  numbers[1] += n;
}

static NOINLINE int64_t lands(int64_t n) {
  volatile int64_t rounds = 0;
  const int came = setjmp(place);
  rounds = rounds + 1;
  observe("landed", came);
  if (rounds < 4) {
    for (int64_t i = 0; i < n; ++i) jumps(i);
  }
  return rounds;
}

static int compare(const void* a, const void* b) {
  const int64_t x = *(const int64_t*)a, y = *(const int64_t*)b;
  return x < y ? -1 : x > y;
}

struct Big {
  int64_t a[20];
};

static NOINLINE struct Big turned(struct Big big, int64_t by) {
  struct Big other;
  for (int i = 0; i < 20; ++i) other.a[i] = big.a[(i + by) % 20];
  return other;
}

static NOINLINE int64_t copies(int64_t n) {
  struct Big big;
  for (int i = 0; i < 20; ++i) big.a[i] = i * n;
  for (int64_t i = 0; i < n; ++i) {
    big = turned(big, i);
    memmove(bytes + i, bytes + 2 * i, (size_t)(i * 7));
    memset(bytes + kMost, (int)i, 64);
  }
  return big.a[3] + memcmp(bytes, bytes + 1, (size_t)n);
}

static NOINLINE long double long_doubles(int64_t n) {
  long double product = 1;
  for (int64_t i = 1; i < n; ++i) {
    if (i % 7 == 3) continue;
    product *= 1 + 1 / (long double)i;
  }
  return product;
}

void c_kernels(void) {
  for (int i = 0; i < kMost; ++i) {
    numbers[i] = i * 2654435761 % 1000003;
    reals[i] = (double)(i * 7919 % 1009) / 64;
    bytes[i] = (char)(i * 31);
  }
  observe("begin", 0);
  cost_table();

  const int64_t sizes[] = {0, 1, 2, 3, 17, 100};
  for (int k = 0; k < 6; ++k) {
    const int64_t n = opaque(sizes[k]);
    observe("size", n);
    observe("triangle", triangle(n));
    observe("small nest", small_nest(n));
    observe("strides", strides((unsigned)n, (unsigned)(4 * n)));
    observe("find", find(numbers, n, numbers[20]));
    observe("leaves early", leaves_early(n));
    observe("collatz", collatz(n + 1));
    observe("exit in the middle", exit_in_the_middle(n));
    for (int64_t i = 0; i < n; ++i) observe("pick", pick(i));
    observe("critical section", critical_section(n));
    observe("fibonacci", fibonacci(n % 20));
    observe("ackermann", ackermann(n % 3, n % 5));
    observe("lands", lands(n));
    observe("copies", copies(n));
    observe("long doubles", (int64_t)(long_doubles(n) * 1000));
  }
  static const unsigned char code[] = {0, 1, 1, 2, 0, 2, 1, 0, 1, 3};
  observe("threaded", threaded(code));
  qsort(numbers, 1000, sizeof(numbers[0]), compare);
  observe("qsort", numbers[500]);
}
