package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slidegate/slidegate/internal/board"
	"github.com/slidegate/slidegate/store"
)

// boardText begins the scripts of the board. They use only commands that deciding uses too, so they need no further permissions. Their
// first arguments are the time or -1 for the server's own, how many milliseconds something is kept after it has ended or -1 for forever,
// and a life in microseconds. What is stored begins with when it ends, and a space.
const boardText = `local now, grace, life = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if now < 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local function put(key, ends, text)
  local value = string.format('%.0f ', ends) .. text
  if grace < 0 then
    redis.call('SET', key, value)
  else
    redis.call('SET', key, value, 'PX', string.format('%.0f', math.ceil((ends - now) / 1000) + grace))
  end
end
local function read(key)
  local value = redis.call('GET', key) or ''
  local space = string.find(value, ' ', 1, true) or 1
  return (tonumber(string.sub(value, 1, space - 1)) or 0) > now and string.sub(value, space + 1)
end
`

var (
	// postScript writes a note, the second key, by the author in the fourth argument, and adds the author to those of the topic, the first
	// key, unless there are as many others as the fifth says. It has a line for each: when the note ends, a space, and the name.
	postScript = newScript(boardText + `local authors, n, ends = {}, 0, now + life
for at, author in string.gmatch(read(KEYS[1]) or '', '(%d+) ([^\n]+)\n') do
  if author ~= ARGV[4] and tonumber(at) > now then
    n = n + 1
    authors[n] = at .. ' ' .. author .. '\n'
    ends = math.max(ends, tonumber(at))
  end
end
if n >= tonumber(ARGV[5]) then return '0' end
authors[n + 1] = string.format('%.0f', now + life) .. ' ' .. ARGV[4] .. '\n'
put(KEYS[1], ends, table.concat(authors))
put(KEYS[2], now + life, ARGV[6])
return '1'`)

	// readScript returns what keys have: for each the length, a space and the text, or -1 and a space if there is nothing.
	readScript = newScript(boardText + `local found = {}
for i = 1, #KEYS do
  local text = read(KEYS[i])
  found[i] = text and #text .. ' ' .. text or '-1 '
end
return table.concat(found)`)
)

// notesPerCall bounds how long Redis is busy with a call.
const notesPerCall = 16

// Post puts a note under a topic; see store.Board.
func (s *Store) Post(ctx context.Context, topic, author string, note []byte, life time.Duration) error {
	if err := board.CheckPost(topic, author, note, life); err != nil {
		return fmt.Errorf("redisstore: %w", err)
	}
	keys := []string{s.boardName(topic, "authors"), s.boardName(topic, "note-"+author)}
	calls, err := s.runBoard(ctx, &postScript, life, []Call{{Keys: keys, Args: []string{author, strconv.Itoa(store.MaxNotes), string(note)}}})
	if err == nil && calls[0].Reply != "1" {
		err = fmt.Errorf("redisstore: %w", board.Full())
	}
	return err
}

// Notes returns the notes of a topic, in two round trips; see store.Board.
func (s *Store) Notes(ctx context.Context, topic string) (map[string][]byte, error) {
	if err := board.CheckTopic(topic); err != nil {
		return nil, fmt.Errorf("redisstore: %w", err)
	}
	calls, err := s.runBoard(ctx, &readScript, 0, []Call{{Keys: []string{s.boardName(topic, "authors")}}})
	if err != nil {
		return nil, err
	}
	found, err := readTexts(calls[0].Reply, 1)
	if err != nil {
		return nil, err
	}
	authors := readAuthors(found[0])
	var reads []Call
	for some := range slices.Chunk(authors, notesPerCall) {
		var keys []string
		for _, author := range some {
			keys = append(keys, s.boardName(topic, "note-"+author))
		}
		reads = append(reads, Call{Keys: keys})
	}
	if reads, err = s.runBoard(ctx, &readScript, 0, reads); err != nil {
		return nil, err
	}
	notes := make(map[string][]byte, len(authors))
	for i := range reads {
		texts, err := readTexts(reads[i].Reply, len(reads[i].Keys))
		if err != nil {
			return nil, err
		}
		for j, text := range texts {
			if text != nil && len(*text) <= store.MaxNote {
				notes[authors[i*notesPerCall+j]] = []byte(*text)
			}
		}
	}
	return notes, nil
}

// readAuthors returns the authors of a topic, of which there may be none.
func readAuthors(list *string) (authors []string) {
	if list == nil {
		return nil
	}
	for line := range strings.Lines(*list) {
		_, author, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if board.CheckTopic(author) == nil && len(authors) < store.MaxNotes {
			authors = append(authors, author)
		}
	}
	return authors
}

// readTexts reads the reply of readScript about n keys. A text is nil if there is none.
func readTexts(reply string, n int) ([]*string, error) {
	texts := make([]*string, n)
	for i := range texts {
		head, rest, ok := strings.Cut(reply, " ")
		length, err := strconv.Atoi(head)
		if !ok || err != nil || length > len(rest) {
			return nil, errors.New("redisstore: invalid reply to the script of the board")
		}
		if reply = rest; length >= 0 {
			text := rest[:length]
			texts[i], reply = &text, rest[length:]
		}
	}
	return texts, nil
}

// runBoard runs a script of the board.
func (s *Store) runBoard(ctx context.Context, script *lua, life time.Duration, calls []Call) ([]Call, error) {
	if ctx.Err() != nil {
		return nil, endedError(ctx)
	}
	if len(calls) == 0 {
		return nil, nil
	}
	head := []string{strconv.FormatInt(int64(s.now()), 10), strconv.FormatInt(s.grace, 10), strconv.FormatInt(life.Microseconds(), 10)}
	for i := range calls {
		calls[i].Args = append(slices.Clip(head), calls[i].Args...)
	}
	return s.runOnce(ctx, script, calls)
}

// boardName returns the name of a key of the board. No state has such a name: there a percent sign is followed by two digits.
func (s *Store) boardName(tag, what string) string { return s.opts.Prefix + ":{" + tag + "}%" + what }
