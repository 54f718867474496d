#pragma once
// Splits a dataset into training and validation, and into rows.

#include <optional>
#include <string>
#include <vector>

#include "dataset.hpp"

// How training steps choose windows of a stream: anywhere, with replacement, or each window once per epoch.
enum class Draws { random, shuffle };

// Which part of the text is for validation: its end, or the ends of up to 100 equal stretches.
enum class ValSplit { tail, spread };

struct SplitOptions {
  double val_fraction = 0.1;
  ValSplit val_split = ValSplit::tail;
  Draws sampling = Draws::random;
  int64_t data_limit = 0;  // train on so many tokens, the first ones; 0: on all
};

// How documents become rows. Open values follow from the text.
struct DocumentOptions {
  std::string documents = {};           // where they end: file, line, paragraph, or a text between them; "": open
  std::optional<Packing> packing = {};
  std::string separator = {};           // the special token between documents; "": none, or open
  double mask_fraction = 0;             // of the tokens, which are the targets; 0: the targets are the next tokens
  bool hides_spans = false;             // sources and targets are made by hiding spans (spans.hpp)

  // True if every context begins with a document, so that a model has seen no other beginning.
  bool begin_contexts() const { return packing.value_or(Packing::stream) != Packing::stream; }
};

// ---- a stream --------------------------------------------------------------------------------------------

// Sets data.train and returns the validation stretches, which come after it. "spread" moves the validation tokens to
// the end.
std::vector<Stretch> split_stream(Dataset& data, const SplitOptions& options, int context);

// Sets the rows for training (none for Draws::random) and for validation: windows back to back.
void set_stream_rows(Dataset& data, const std::vector<Stretch>& validation, Draws sampling, int context);

// ---- documents -------------------------------------------------------------------------------------------

// A document's tokens, and the -log P of its text if that is known. A pair's target is a document, whose source an
// encoder reads.
struct Document {
  Stretch tokens;
  Stretch source = {};
  double nats = 0;
};

struct DocumentSplit {
  std::vector<Document> train, val;
};

// Takes whole documents for validation: the last ones, or with "spread" the last ones of up to 100 equal stretches.
DocumentSplit split_documents(const std::vector<Document>& documents, const SplitOptions& options);

// Returns a note if validation has more than twice its share of the tokens, because a document is long; else "".
std::string note_of_share(const DocumentSplit& split, const SplitOptions& options);

// Sets data.train and the rows of documents, as data.packing says. Sets the floor if `nats_known`. Notes documents that
// are longer than the context: they are cut, and pairs are left out.
void set_document_rows(Dataset& data, DocumentSplit split, bool nats_known, int context);

// Shorten the training part to options.data_limit tokens: of a stream, or of whole documents, the last of which may end
// beyond. Return the number of tokens that they leave out. Throw std::runtime_error if there are fewer tokens, or if a
// stream becomes shorter than a row.
size_t limit_stream(Dataset& data, const SplitOptions& options, int context);
size_t limit_documents(std::vector<Document>& train, const SplitOptions& options);

// Throws std::runtime_error if there are fewer tokens than `what` needs.
void require_tokens(size_t have, size_t need, const std::string& what, const std::string& name, const char* advice);
