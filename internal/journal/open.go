package journal

import (
	"errors"
	"fmt"
	"slices"
)

// start begins the first segment of this process. What was found keeps its files until the next checkpoint is complete.
func (j *Journal) start(f found) error {
	j.highest = f.highest
	for _, s := range f.kept {
		j.segments = append(j.segments, &segment{seq: s.seq, size: s.size})
		j.previous, j.previousEnd = s.seq, f.end
	}
	j.checkpoint.bytes, j.checkpoint.before, j.checkpoint.begin = f.checkpointBytes, f.after, headerBytes
	err := j.syncFound(f)
	if err == nil {
		err = j.beginFirst()
	}
	if err != nil && !IsFull(err) {
		return err
	}
	j.mu.Lock()
	if err != nil {
		j.failLocked(err)
	}
	j.mu.Unlock()
	if err == nil {
		j.removeFound(f)
	}
	j.keepWord()
	if !f.Clean {
		j.signalDue()
	}
	j.finished.Add(1)
	go j.lookAhead()
	j.wakeUp()
	return nil
}

// keepWord keeps the word about the folder true. A folder has none until it has files that are on the disk: it is not damaged without them.
func (j *Journal) keepWord() {
	j.wording.Lock()
	defer j.wording.Unlock()
	j.mu.Lock()
	failing := j.failure.err != nil
	j.mu.Unlock()
	was, word := j.lock.Word(), wordUsed
	if failing {
		if word = wordUnrecorded; !hadFiles(was) {
			word = wordNothing
		}
	}
	if word != was {
		_ = j.lock.SetWord(word) // it is tried again after each checkpoint
	}
}

// syncFound makes what was replayed durable: what is recorded next builds on it.
func (j *Journal) syncFound(f found) error {
	if f.Clean {
		return nil
	}
	for _, s := range f.kept {
		file, err := j.files.Open(segmentName(s.seq))
		if err != nil {
			return err
		}
		if err := errors.Join(file.Sync(), file.Close()); err != nil {
			return err
		}
	}
	return nil
}

// beginFirst makes the first file, in a mapping if that is possible.
func (j *Journal) beginFirst() error {
	j.mapped = !j.synced && j.boot != [16]byte{}
	s, err := j.create(j.nextSeqLocked(), j.mapped)
	if j.mapped && errors.Is(err, errors.ErrUnsupported) {
		j.mapped = false
		s, err = j.create(j.nextSeqLocked(), false)
	}
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.spare = s
	if err := j.activateLocked(j.cursor.Load(), 0); err != nil {
		return err
	}
	if j.synced {
		return j.writer.flushLocked(j)
	}
	return errors.Join(s.file.Sync(), j.files.Sync())
}

// removeFound removes what is not needed, and frees what had been reserved. Now that the new file says where the old ones end, none of
// that can be mistaken for damage.
func (j *Journal) removeFound(f found) {
	for _, name := range f.dropped {
		_ = j.remove(name) // it is tried again at the next start
	}
	if n := len(f.kept); n > 0 && f.kept[n-1].size > int64(f.end) {
		if file, err := j.files.Open(segmentName(f.kept[n-1].seq)); err == nil {
			if file.Truncate(int64(f.end)) == nil {
				j.segments[n-1].size = int64(f.end)
			}
			_ = file.Close()
		}
	}
}

// markClosed syncs everything, and marks where it ends.
func (j *Journal) markClosed() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.synced {
		if err := j.writer.flushLocked(j); err != nil {
			return err
		}
	}
	end, s := j.endPlaceLocked(), j.lastLocked()
	for _, s := range j.segments {
		if s.file != nil {
			if err := s.file.Sync(); err != nil {
				return err
			}
		}
	}
	m := mark{Seq: end.seq, End: end.off}
	if _, err := s.file.WriteAt(m.encode(s.salt, closedMark), closedMark); err != nil {
		return err
	}
	if err := errors.Join(s.file.Sync(), j.files.Sync()); err != nil {
		return err
	}
	if s.mmap != nil {
		detach(s.mmap)
	}
	_ = s.file.Truncate(int64(end.off)) // only to free what is not used
	return nil
}

// Info is what Inspect found.
type Info struct {
	Report
	DiskBytes int64 // of all files, with the space that is reserved
	Files     int
}

// Inspect reads a folder without changing anything, while another process may be writing there.
func Inspect(dir string, each func(Record) error) (Info, error) {
	if dir == "" {
		return Info{}, errNoPath
	}
	names, err := folder(dir).List()
	if err != nil {
		return Info{}, fmt.Errorf("journal: %w", err)
	}
	if !slices.ContainsFunc(names, isOwn) {
		return Info{}, fmt.Errorf("journal: %s: it has no files of a store", dir)
	}
	found, err := read(dir, folder(dir), wordOf(dir), each)
	info := Info{Report: found.Report, Files: len(found.all)}
	for _, s := range found.all {
		info.DiskBytes += s.size
	}
	return info, err
}
