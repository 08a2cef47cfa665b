// The descriptors that the runtime needs until the end. A program that closes all descriptors (closefrom(), close_range(),
// a loop over their numbers) closes these too, and then nothing forbids accesses to shared memory any more, or the
// service drops the process: its run must end. Written before other threads use it.
#pragma once

#include <sys/types.h>

#include <vector>

namespace braid::dsm {

// Ends the process: the program has closed a descriptor of the runtime. `what`: as below.
[[noreturn]] void fail_for_closed_descriptor(const char* what);

class OwnDescriptors {
 public:
  // `what`: for people; a text that stays. A negative descriptor is none.
  void add(int fd, const char* what);
  // The `what` of a descriptor that was closed or is another file by now; nullptr: none. Any thread; allocates nothing.
  const char* lost() const;

 private:
  struct Own {
    int fd;
    const char* what;
    dev_t device;
    ino_t file;
  };
  std::vector<Own> own_;
};

}  // namespace braid::dsm
