// Runs a fuzzer's kept inputs through it, without libFuzzer: the test that every build runs, with any
// compiler, so that no fuzzer rots and no bug that one found comes back.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "tests/fuzz/input.h"

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> inputs_in(const fs::path& place) {
  if (fs::is_regular_file(place)) return {place};
  std::vector<fs::path> files;
  if (fs::is_directory(place)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(place)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t ran = 0;
  for (int i = 1; i < argc; ++i) {
    for (const fs::path& path : inputs_in(argv[i])) {
      std::ifstream in(path, std::ios::binary);
      const std::vector<char> text{std::istreambuf_iterator<char>(in), {}};
      // Named before it runs: what crashes says nothing afterwards.
      std::printf("%s, %zu bytes\n", path.c_str(), text.size());
      std::fflush(stdout);
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
      ++ran;
    }
  }
  std::printf("%zu inputs, all well\n", ran);
  if (ran == 0) std::printf("no inputs: name files, or folders of them\n");
  return ran > 0 ? 0 : 1;
}
