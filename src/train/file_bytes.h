// Whole files in and out: the reading side never throws, the writing side never leaves half a file.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "lockstep/status.h"

namespace lockstep::train {

// kUnavailable when there is no such file, kInvalidArgument for a folder, kIo for everything else. The message names
// it.
Result<std::string> read_file(const std::filesystem::path& file);

// Writes beside the file, flushes to disk and renames: a reader sees the old file or the new one whole, also after a
// crash.
Status write_file_atomically(const std::filesystem::path& file, std::string_view bytes);

}  // namespace lockstep::train
