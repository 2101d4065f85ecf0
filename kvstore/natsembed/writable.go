package natsembed

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// After a write error, such as on a full disk, NATS does not write until it is restarted: a single server no longer acknowledges
// messages, and a member of a cluster turns its JetStream off. A Server therefore stops a NATS server that has met one, and starts
// another when the folder can be written again. Meanwhile connections to a single server are closed, so that its clients know at
// once, and a member of a cluster runs without JetStream, so that its clients reach the other members.

var errNotWritable = errors.New("natsembed: the server cannot write to its folder")

const (
	// checkEvery is the time between checks of a folder that could not be written.
	checkEvery = time.Second
	// lastPause bounds the growing time between attempts to start a server in a folder that passes the check.
	lastPause = 4 * time.Second
	// trialTime is how long a new server must run without a write error.
	trialTime = 3 * time.Second
	// spareBytes is the space that a folder must have for a server to be started. NATS also needs space to remove what has
	// expired in the meantime.
	spareBytes = 256 << 10
)

// keepWritable replaces the NATS server after every write error, until the Server is closed.
func (s *Server) keepWritable() {
	for {
		select {
		case <-s.closing:
			return
		case err := <-s.log.broken:
			begun := time.Now()
			s.opts.Logger.Error("nats: the server cannot write to its folder; it starts again when it can", slog.Any("error", err))
			if !s.mend() {
				return
			}
			s.opts.Logger.Warn("nats: the server can write to its folder again", slog.Duration("after", time.Since(begun).Round(time.Millisecond)))
		}
	}
}

// mend replaces a NATS server that cannot write to its folder. It returns when one can, or with false when the Server is closed.
func (s *Server) mend() bool {
	s.suspend()
	for pause, attempted := checkEvery, time.Now(); s.wait(checkEvery); {
		if time.Since(attempted) < pause || checkSpace(s.opts.Dir) != nil {
			continue
		}
		if s.try() {
			return true
		}
		attempted, pause = time.Now(), min(2*pause, lastPause)
	}
	return false
}

// suspend stops the NATS server. In a cluster it starts one without JetStream instead; if that fails, clients have no connection
// until the next attempt.
func (s *Server) suspend() {
	if s.stop(); s.clustered() {
		_ = s.run(false, true)
	}
}

// try starts a NATS server with JetStream, and reports whether it has run for a while without a write error.
func (s *Server) try() bool {
	s.stop()
	if err := s.run(true, true); err == nil {
		trial := time.NewTimer(trialTime)
		defer trial.Stop()
		select {
		case <-s.closing:
			return false
		case <-trial.C:
			s.log.quiet.Store(false)
			return true
		case <-s.log.broken:
		}
	}
	s.suspend()
	return false
}

// wait waits for some time, and reports whether the Server is still in use.
func (s *Server) wait(pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-s.closing:
		return false
	case <-timer.C:
		return true
	}
}

// checkSpace returns an error if a folder has no space for a server. It writes to the folder, since a file system may report space that
// a quota withholds.
func checkSpace(dir string) error {
	name := filepath.Join(dir, spaceFile) // always the same, so that a process that is killed leaves only one
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(name)
	_, err = file.Write(make([]byte, spareBytes))
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}
