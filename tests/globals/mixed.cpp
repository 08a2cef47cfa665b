// Globals of C++: objects with constructors, virtual functions, function-local statics, inline variables, thread-locals.
#include "mixed.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <stdexcept>
#include <typeinfo>

namespace {

struct Counted {
  explicit Counted(int n) : value(n) {}
  virtual ~Counted() = default;
  virtual int twice() const { return 2 * value; }
  int value;
};
struct Loud final : Counted {
  explicit Loud(int n) : Counted(n) {}
  ~Loud() override { std::fputs("destroyed\n", stderr); }
  int twice() const override { return 3 * value; }
};

Loud constructed(7);
Counted* chosen = &constructed;
char text[32];
thread_local int own = std::atoi("11");

template <class T>
struct Table {
  static T entries[1000];
};
template <class T>
T Table<T>::entries[1000];

inline int initialised = std::atoi("6");
int times_made = 0;
int attempts = 0;

int make(int n) {
  times_made += 1;
  return n;
}
int nested() {
  static const int inner = make(20);
  return inner;
}
// Initialised by whichever compute node comes first, once for all clusters.
inline int& made_once() {
  static int value = make(nested() + 1);
  return value;
}
int made_by_main() {
  static const int value = make(5);
  return value;
}
int fails_first() {
  static const int value = [] {
    if (attempts++ == 0) throw std::runtime_error("first");
    return 33;
  }();
  return value;
}

int wrong(bool holds, const char* what) {
  if (holds) return 0;
  std::fprintf(stderr, "wrong: %s\n", what);
  return 1;
}
#define WRONG(condition) wrong(condition, #condition)

}  // namespace

void begin_cpp() {
  if (made_by_main() != 5 || times_made != 1) std::abort();
}

void write_cpp(unsigned id) {
  constructed.value = 70 + static_cast<int>(id);
  std::strcpy(text, "written by a node");
  Table<double>::entries[999] = 2.5;
  initialised += 1;
  own = 99;
  std::cout.width(5);
  try {
    (void)fails_first();
  } catch (const std::runtime_error&) {
    Table<int>::entries[0] = 1;
  }
}

int read_cpp() {
  int bad = WRONG(chosen == &constructed) + WRONG(typeid(*chosen) == typeid(Loud));
  bad += WRONG(chosen->twice() == 3 * constructed.value) + WRONG(constructed.value >= 70);
  bad += WRONG(std::strcmp(text, "written by a node") == 0);
  bad += WRONG(Table<double>::entries[999] == 2.5) + WRONG(Table<int>::entries[0] == 1);
  bad += WRONG(initialised == 7);
  bad += WRONG(made_once() == 21) + WRONG(made_by_main() == 5) + WRONG(times_made == 3);
  try {
    bad += WRONG(fails_first() == 33);
  } catch (const std::runtime_error&) {
    bad += wrong(false, "fails once");
  }
  return bad + WRONG(attempts == 2);
}

const char* end_cpp() {
  static char line[64];
  std::snprintf(line, sizeof line, "%d made, %d", times_made, made_once());
  return line;
}
