// Joins a run and leaves it. What fails while it joins is the runtime's matter; what fails later, the program's.
#include <dlfcn.h>

#include "dsm/api.h"

int main() {
  braid::dsm::init();
  using Over = void (*)();
  if (const auto over = reinterpret_cast<Over>(::dlsym(RTLD_DEFAULT, "braid_start_is_over")); over != nullptr)
    over();
  return braid::dsm::finish(0);
}
