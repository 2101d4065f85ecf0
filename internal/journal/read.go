package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Report is what Open found.
type Report struct {
	Records int // that were replayed

	Checkpoint bool // it began with a complete checkpoint
	New        bool // nothing was ever recorded
	Clean      bool // the journal had been closed, or is new
	Ended      bool // the last process had closed the journal, whether or not that could be recorded
	Unrecorded bool // its last records were not durable, and are missing
	PowerLoss  bool // the operating system has been restarted since, and the journal had not been closed

	// After the end of a process, records that it had begun to write, and whose requests were not answered, are skipped.
	Holes      int   // places where nothing was written
	HoleBytes  int64 // in these places
	Unfinished int   // records that were not finished

	// After a loss of power, everything behind the first place that is not a whole record is dropped. After the end of a process, that is
	// at most what the last write left.
	Cut    int64  // bytes that were dropped
	CutAt  string // file and offset where that begins; empty if nothing was dropped
	Blanks int    // files without anything
}

// found is what read leaves to do for Open.
type found struct {
	Report
	all     []*source // ordered by number
	kept    []*source // whose records count, the oldest first
	dropped []string  // names of files that are not needed
	end     uint64    // where the records of the last of kept end
	highest uint64    // number of all files

	checkpointBytes, after uint64 // of the complete checkpoint, and behind it
}

// source is a file that is read.
type source struct {
	seq            uint64
	size           int64
	file           File
	header         header
	blank          bool // it has no header: it was made in advance, or its header did not reach the disk
	complete       mark // of the checkpoint that begins here
	isComplete     bool
	closed         mark
	isClosed       bool
	end            uint64 // where its records end according to the next process, or to its own mark; 0 if neither says
	strict         uint64 // up to here everything is on the disk and whole
	accepted       bool   // another process has replayed it since
	endMayBeBroken bool
}

// reader reads a folder.
type reader struct {
	dir    string
	files  Files
	word   string // about the folder
	replay func(Record) error
	boot   [16]byte
	data   []byte
	found
}

func read(dir string, files Files, word string, replay func(Record) error) (found, error) {
	r := &reader{dir: dir, files: files, word: word, replay: replay, boot: bootID(files)}
	defer r.close()
	if err := r.list(); err != nil {
		return r.found, err
	}
	if err := r.choose(); err != nil {
		return r.found, err
	}
	r.Ended = r.word == wordEnded || r.word == wordEndedNothing
	r.Unrecorded = r.Ended || r.word == wordUnrecorded || r.word == wordNothing
	r.Ended = r.Ended || r.Clean && !r.New && !r.Unrecorded
	return r.found, r.readAll()
}

func (r *reader) close() {
	for _, s := range r.all {
		_ = s.file.Close()
	}
}

// damaged returns an error about a file.
func (r *reader) damaged(seq, off uint64, problem string) error {
	return fmt.Errorf("journal: %s: %w at byte %d: %s; %s", filepath.Join(r.dir, segmentName(seq)), ErrDamaged, off, problem, r.advice())
}

// advice says how to go on without the files. The folder itself may be where a disk is mounted.
func (r *reader) advice() string {
	return "restore a copy of the folder, or move everything in " + r.dir + " away to start without its records"
}

// list opens all files, so that they can be read even if another process removes them.
func (r *reader) list() error {
	for attempt := 0; ; attempt++ {
		err := r.listOnce()
		if err == nil || !errors.Is(err, os.ErrNotExist) || attempt == 100 {
			return err
		}
		r.close() // a checkpoint of another process was completed
		r.all = nil
	}
}

func (r *reader) listOnce() error {
	names, err := r.files.List()
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	slices.Sort(names)
	for _, name := range names {
		seq, ok := parseName(name)
		if !ok {
			continue
		}
		file, err := r.files.Open(name)
		if err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		s := &source{seq: seq, file: file}
		r.all = append(r.all, s)
		if err := r.readHeader(s); err != nil {
			return err
		}
	}
	slices.SortFunc(r.all, func(a, b *source) int { return int(int64(a.seq - b.seq)) })
	return nil
}

func (r *reader) readHeader(s *source) error {
	size, err := s.file.Size()
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	s.size = size
	page := make([]byte, headerBytes)
	n, err := s.file.ReadAt(page, 0)
	if n < headerBytes && int64(n) < size {
		return fmt.Errorf("journal: %w", err)
	}
	if isZero(page[:24]) {
		s.blank = true
		return nil
	}
	h, problem, newer := decodeHeader(page[:n])
	if newer {
		return fmt.Errorf("journal: %s: %w of this program: %s; use the version that wrote it, or move everything in %s away to start without its records",
			filepath.Join(r.dir, segmentName(s.seq)), ErrNewer, problem, r.dir)
	}
	s.header = h
	switch {
	case problem != "":
	case h.Seq != s.seq:
		problem = "its header is that of another file"
	case size > h.Size:
		problem = "the file is longer than it was made"
	default:
		if s.complete, s.isComplete, problem = decodeMark(page, h.Salt, completeMark); problem == "" {
			s.closed, s.isClosed, problem = decodeMark(page, h.Salt, closedMark)
		}
	}
	if problem != "" {
		return r.damaged(s.seq, 0, problem)
	}
	return nil
}

func isZero(text []byte) bool { return len(bytes.TrimLeft(text, "\x00")) == 0 }

func (r *reader) bySeq(seq uint64) *source {
	for _, s := range r.all {
		if s.seq == seq && !s.blank {
			return s
		}
	}
	return nil
}

// choose decides which files count, and how strictly each is read.
func (r *reader) choose() error {
	var start, first *source // the newest complete checkpoint, and the newest beginning of a process
	for _, s := range r.all {
		r.highest = s.seq
		if s.isComplete {
			start = s
		}
		if s.header.is(flagFirst) {
			first = s
		}
	}
	if start == nil && first == nil {
		return r.chooseNothing()
	}
	chain := []*source{start}
	if start == nil || first != nil && first.seq > start.seq {
		var err error
		if chain, err = r.back(first, start); err != nil {
			return err
		}
	}
	chain, err := r.forward(chain)
	if err != nil {
		return err
	}
	if start != nil && chain[len(chain)-1].seq < start.complete.Seq {
		return r.damaged(start.complete.Seq, 0, "the file, which has the end of a checkpoint, is missing or has no header")
	}
	r.kept = chain
	r.Checkpoint = start != nil
	for i, s := range chain {
		s.accepted = first != nil && s.seq < first.seq
		s.endMayBeBroken = i+1 == len(chain) || chain[i+1].header.is(flagGap) && !chain[i+1].header.is(flagFirst)
		if start == nil {
			continue
		}
		if s.seq < start.complete.Seq {
			s.strict = uint64(s.header.Size)
		} else if s.seq == start.complete.Seq {
			s.strict = start.complete.End
		}
	}
	for _, s := range r.all {
		if !slices.Contains(chain, s) {
			r.dropped = append(r.dropped, segmentName(s.seq))
		}
	}
	return nil
}

// chooseNothing is for a folder without records: a new one, or one whose first file was being made.
func (r *reader) chooseNothing() error {
	if hadFiles(r.word) {
		return fmt.Errorf("journal: %s: %w: it was used before, but its files are missing; %s", r.dir, ErrDamaged, r.advice())
	}
	r.Clean, r.New = true, true
	for _, s := range r.all {
		if !s.blank {
			return r.damaged(s.seq, 0, "the files before it are missing")
		}
		if err := r.checkBlank(s); err != nil {
			return err
		}
	}
	return nil
}

// checkBlank drops a file that was made in advance.
func (r *reader) checkBlank(s *source) error {
	r.Blanks++
	r.dropped = append(r.dropped, segmentName(s.seq))
	if err := r.load(s); err != nil {
		return err
	}
	if len(r.data) > headerBytes && !isZero(r.data[headerBytes:]) {
		return r.damaged(s.seq, 0, "it has records but no header")
	}
	return nil
}

// back returns the files from start to first, or from the very first one if start is nil.
func (r *reader) back(first, start *source) ([]*source, error) {
	chain := []*source{first}
	for at := first; at != start; {
		previous := at.seq - 1
		if at.header.is(flagFirst) {
			previous = at.header.Previous
			if previous == 0 && start == nil {
				break
			}
		}
		before := r.bySeq(previous)
		if before == nil || before.seq >= at.seq || start != nil && before.seq < start.seq {
			return nil, r.damaged(at.seq, 0, "the file "+segmentName(previous)+" before it is missing")
		}
		if at.header.is(flagFirst) {
			before.end = at.header.PreviousEnd
		}
		chain = append(chain, before)
		at = before
	}
	slices.Reverse(chain)
	return chain, nil
}

// forward adds the files behind the last one, which the last process made.
func (r *reader) forward(chain []*source) ([]*source, error) {
	last := chain[len(chain)-1]
	r.PowerLoss = last.header.Boot != r.boot || r.boot == [16]byte{}
	for next := r.bySeq(last.seq + 1); next != nil; next = r.bySeq(last.seq + 1) {
		chain = append(chain, next)
		last = next
	}
	if last.isClosed {
		r.Clean, r.PowerLoss = true, false
		last.end = last.closed.End
	}
	for _, s := range r.all {
		switch {
		case s.seq <= last.seq:
		case r.PowerLoss:
			if err := r.drop(s); err != nil {
				return nil, err
			}
		case !s.blank:
			return nil, r.damaged(last.seq+1, 0, "the file is missing or has no header")
		default:
			if err := r.checkBlank(s); err != nil {
				return nil, err
			}
		}
	}
	return chain, nil
}
