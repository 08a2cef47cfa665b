// Runs a fuzzer's kept inputs through it, without libFuzzer: the test that every build runs, with any
// compiler, so that no fuzzer rots and no bug that one found comes back. Each input runs again, after all others in
// the opposite order, and must do the same: an input that a fuzzer finds can be replayed alone.
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

struct Kept {
  fs::path path;
  std::vector<char> text;
  std::uint64_t digest;
};

std::uint64_t run(const Kept& kept) {
  // Named before it runs: what crashes says nothing afterwards.
  std::printf("%s, %zu bytes\n", kept.path.c_str(), kept.text.size());
  std::fflush(stdout);
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(kept.text.data()), kept.text.size());
  return braid::fuzz::Digest::instance().value();
}

}  // namespace

// The fuzzers' mutators call it, which nothing calls here.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t*, std::size_t size, std::size_t) {
  return size;
}

int main(int argc, char** argv) {
  std::vector<Kept> inputs;
  for (int i = 1; i < argc; ++i) {
    for (const fs::path& path : inputs_in(argv[i])) {
      std::ifstream in(path, std::ios::binary);
      inputs.push_back({path, std::vector<char>{std::istreambuf_iterator<char>(in), {}}, 0});
    }
  }
  braid::fuzz::Digest::instance().want();
  for (Kept& kept : inputs) kept.digest = run(kept);
  std::size_t different = 0;
  for (auto kept = inputs.rbegin(); kept != inputs.rend(); ++kept) {
    if (run(*kept) == kept->digest) continue;
    std::printf("%s: not the same as at first\n", kept->path.c_str());
    ++different;
  }
  std::printf("%zu inputs, twice each; %zu with another result the second time\n", inputs.size(), different);
  return inputs.empty() || different != 0 ? 1 : 0;
}
