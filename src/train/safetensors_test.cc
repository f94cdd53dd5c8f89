#include "train/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/bytes.h"
#include "train/scratch_folder.h"

namespace lockstep::train {
namespace {

using Metadata = std::map<std::string, std::string>;

std::vector<std::byte> some_bytes(std::size_t count) {
  std::vector<std::byte> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<std::byte>(i * 7 + 1);
  return out;
}

// A file of the given header text and `data_bytes` of data.
std::string file_with(const std::string& json, std::size_t data_bytes) {
  std::array<std::byte, 8> length{};
  base::ByteWriter(length).u64(json.size());
  return std::string(reinterpret_cast<const char*>(length.data()), 8) + json + std::string(data_bytes, 'd');
}

// Opens and reads everything, as a loader would.
Status open_and_read(const std::filesystem::path& path) {
  auto reader = SafetensorsReader::open(path);
  if (!reader) return reader.error();
  for (const TensorInfo& info : reader->tensors()) {
    std::vector<std::byte> data(info.bytes());
    if (Status status = reader->read(info, data); !status) return status;
  }
  return Status::ok();
}

std::string refusal(const std::string& json, std::size_t data_bytes) {
  ScratchFolder folder;
  folder.write("t.safetensors", file_with(json, data_bytes));
  const Status status = open_and_read(folder / "t.safetensors");
  EXPECT_EQ(status.code(), StatusCode::kCorrupt) << json;
  EXPECT_NE(status.message().find("t.safetensors"), std::string::npos) << "names the file: " << status.message();
  return status.message();
}

void expect_refusal(const std::string& json, std::size_t data_bytes, const std::string& reason) {
  const std::string message = refusal(json, data_bytes);
  EXPECT_NE(message.find(reason), std::string::npos) << message << "\nfor " << json;
}

TEST(Safetensors, RoundTripKeepsNamesShapesBytesOrderAndMetadata) {
  ScratchFolder folder;
  const auto a = some_bytes(24), b = some_bytes(4), none = some_bytes(0);
  const TensorToWrite tensors[] = {{"z.weight", TensorDtype::kF32, {2, 3}, a},
                                   {"empty", TensorDtype::kF32, {0, 5}, none},
                                   {"scalar", TensorDtype::kF32, {}, b},
                                   {"a.bias", TensorDtype::kBf16, {2}, b}};
  ASSERT_TRUE(write_safetensors(folder / "x", tensors, {{"format", "pt"}}));
  auto reader = SafetensorsReader::open(folder / "x");
  ASSERT_TRUE(reader) << reader.error().message();
  EXPECT_EQ(reader->metadata(), (Metadata{{"format", "pt"}}));
  ASSERT_EQ(reader->tensors().size(), 4u);
  for (const TensorToWrite& written : tensors) {
    const TensorInfo* info = reader->find(written.name);
    ASSERT_NE(info, nullptr) << written.name;
    EXPECT_EQ(info->shape, written.shape);
    EXPECT_EQ(info->dtype, written.dtype);
    std::vector<std::byte> data(info->bytes());
    ASSERT_TRUE(reader->read(*info, data));
    EXPECT_TRUE(std::equal(data.begin(), data.end(), written.data.begin(), written.data.end()));
  }
  EXPECT_EQ(reader->find("b"), nullptr);
  EXPECT_EQ(folder.files(), 1u) << "no temporary is left";
}

TEST(Safetensors, DataBeginsAtAMultipleOfEight) {
  ScratchFolder folder;
  for (const char* name : {"a", "ab", "abc", "abcd", "abcde"}) {
    const auto data = some_bytes(4);
    const TensorToWrite tensor{name, TensorDtype::kF32, {1}, data};
    ASSERT_TRUE(write_safetensors(folder / "x", {&tensor, 1}, {}));
    EXPECT_EQ((folder.read("x").size() - 4) % 8, 0u);
  }
}

TEST(Safetensors, FileWithoutTensorsIsValid) {
  ScratchFolder folder;
  ASSERT_TRUE(write_safetensors(folder / "x", {}, {}));
  EXPECT_TRUE(open_and_read(folder / "x"));
}

TEST(Safetensors, HeadersThatLieAreRefusedWithTensorAndReason) {
  const std::string good = R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  ScratchFolder folder;
  folder.write("x", file_with(good, 8));
  ASSERT_TRUE(open_and_read(folder / "x"));

  expect_refusal(good, 7, "\"t\": its data ends at byte 8, past the end");
  expect_refusal(good, 9, "1 bytes at the end belong to no tensor");
  expect_refusal(R"({"t":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8, "needs 12 bytes, its data has 8");
  expect_refusal(R"({"t":{"dtype":"F64","shape":[2],"data_offsets":[0,8]}})", 8, "needs 16 bytes");
  expect_refusal(R"({"t":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", 8, "unknown dtype \"F33\"");
  expect_refusal(R"({"t":{"shape":[2],"data_offsets":[0,8]}})", 8, "no \"dtype\"");
  expect_refusal(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8, "not a pair");
  expect_refusal(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", 8, "not a pair");
  expect_refusal(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}})", 8, "not a pair");
  expect_refusal(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8.0]}})", 8, "not a pair");
  expect_refusal(R"({"t":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8, "size -2 in its shape");
  expect_refusal(R"({"t":{"dtype":"F32","shape":[1e300],"data_offsets":[0,8]}})", 8, "in its shape");
  expect_refusal(R"({"t":{"dtype":"F32","shape":"2","data_offsets":[0,8]}})", 8, "\"shape\" is not a list");
  expect_refusal(R"({"t":{"dtype":"F32","shape":[4294967296,4294967296,2],"data_offsets":[0,8]}})", 8, "too many");
  expect_refusal(R"({"t":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]}})", 8, "in its shape");
  expect_refusal(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,99999999999999999999999]}})", 8, "not a pair");
  expect_refusal(R"({"t":7})", 0, "not an object");
  expect_refusal(R"({"__metadata__":{"a":1}})", 0, "metadata \"a\" is not text");
  expect_refusal(R"({"__metadata__":[]})", 0, "not an object");
  expect_refusal(R"([])", 0, "does not begin with '{'");
  expect_refusal("", 0, "does not begin with '{'");
  expect_refusal(R"({"t":)", 0, "not valid JSON");
}

TEST(Safetensors, OverlapsHolesAndRepeatedNamesAreRefused) {
  const std::string a = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  expect_refusal("{" + a + R"(,"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12,
                 "\"b\": its data overlaps");
  expect_refusal("{" + a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})", 16,
                 "\"b\": 4 bytes before its data belong to no tensor");
  expect_refusal("{" + a + "," + a + "}", 8, "\"a\" occurs twice");
}

TEST(Safetensors, DeeplyNestedHeaderIsRefusedWithoutExhaustingTheStack) {
  const std::size_t depth = 200'000;
  expect_refusal(R"({"t":)" + std::string(depth, '[') + std::string(depth, ']') + "}", 0, "nested deeper");
}

TEST(Safetensors, HeaderLengthBeyondTheFormatIsRefusedBeforeItIsAllocated) {
  ScratchFolder folder;
  folder.write("x", "\xff\xff\xff\xff\xff\xff\xff\x7f{}");
  const Status status = open_and_read(folder / "x");
  EXPECT_NE(status.message().find("more than the"), std::string::npos) << status.message();
}

TEST(Safetensors, MissingFileAndFolderAreErrors) {
  ScratchFolder folder;
  EXPECT_EQ(open_and_read(folder / "none").code(), StatusCode::kUnavailable);
  EXPECT_FALSE(open_and_read(folder.path()));
}

std::string small_file(const ScratchFolder& folder) {
  const auto a = some_bytes(24), b = some_bytes(4);
  const TensorToWrite tensors[] = {{"a", TensorDtype::kF32, {2, 3}, a}, {"b", TensorDtype::kBf16, {2}, b}};
  EXPECT_TRUE(write_safetensors(folder / "good", tensors, {{"format", "pt"}}));
  return folder.read("good");
}

TEST(Safetensors, TruncationAtEveryByteIsRefused) {
  ScratchFolder folder;
  const std::string whole = small_file(folder);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    folder.write("cut", whole.substr(0, length));
    const Status status = open_and_read(folder / "cut");
    ASSERT_EQ(status.code(), StatusCode::kCorrupt) << "cut at " << length;
    ASSERT_FALSE(status.message().empty());
  }
}

TEST(Safetensors, RandomDamageNeverCrashesAndNeverYieldsMoreThanTheFile) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  ScratchFolder folder;
  const std::string whole = small_file(folder);
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = whole;
    const int flips = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < flips; ++i) {
      // Half of the damage goes into the first 16 bytes and digits, where it makes lies rather than broken JSON.
      const std::size_t at = random() % 2 ? random() % damaged.size() : random() % 16;
      damaged[at] = random() % 2 ? static_cast<char>(random()) : static_cast<char>('0' + random() % 10);
    }
    const std::span bytes = std::as_bytes(std::span(damaged));
    auto length = read_header_length(bytes.first(8), damaged.size(), "damaged");
    if (!length) continue;
    auto header = parse_safetensors_header(std::string_view(damaged).substr(8, *length), damaged.size(), "damaged");
    if (!header) {
      ASSERT_FALSE(header.error().message().empty());
      continue;
    }
    std::uint64_t total = header->data_begin;
    for (const TensorInfo& info : header->tensors) total += info.bytes();
    ASSERT_EQ(total, damaged.size());
  }
}

TEST(Safetensors, WriterRefusesWhatAReaderWouldAndWritesNothing) {
  ScratchFolder folder;
  const auto data = some_bytes(8);
  const TensorToWrite twice[] = {{"a", TensorDtype::kF32, {2}, data}, {"a", TensorDtype::kF32, {2}, data}};
  EXPECT_FALSE(write_safetensors(folder / "x", twice, {}));
  const TensorToWrite wrong{"a", TensorDtype::kF32, {3}, data};
  EXPECT_FALSE(write_safetensors(folder / "x", {&wrong, 1}, {}));
  const TensorToWrite reserved{"__metadata__", TensorDtype::kF32, {2}, data};
  EXPECT_FALSE(write_safetensors(folder / "x", {&reserved, 1}, {}));
  const TensorToWrite not_text{"\xff\xfe", TensorDtype::kF32, {2}, data};
  EXPECT_FALSE(write_safetensors(folder / "x", {&not_text, 1}, {}));
  EXPECT_EQ(folder.files(), 0u);
}

TEST(Safetensors, ReadIntoAWrongSizeIsRefused) {
  ScratchFolder folder;
  small_file(folder);
  auto reader = SafetensorsReader::open(folder / "good");
  ASSERT_TRUE(reader);
  std::vector<std::byte> small(3);
  EXPECT_EQ(reader->read(reader->tensors().front(), small).code(), StatusCode::kInvalidArgument);
}

TEST(Safetensors, FileThatShrinksAfterOpeningIsAnErrorNotASignal) {
  ScratchFolder folder;
  const std::string whole = small_file(folder);
  auto reader = SafetensorsReader::open(folder / "good");
  ASSERT_TRUE(reader);
  std::filesystem::resize_file(folder / "good", whole.size() - 10);
  const TensorInfo& last = reader->tensors().back();
  std::vector<std::byte> data(last.bytes());
  EXPECT_EQ(reader->read(last, data).code(), StatusCode::kCorrupt);
}

}  // namespace
}  // namespace lockstep::train
