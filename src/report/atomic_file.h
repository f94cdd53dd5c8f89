// Writes a file so that readers see the old one or the new one, never a part.
#pragma once

#include <filesystem>
#include <string_view>

#include "lockstep/status.h"

namespace lockstep::report {

Status write_atomically(const std::filesystem::path& file, std::string_view text);

}  // namespace lockstep::report
