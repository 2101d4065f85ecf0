package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"
)

// envoyClient asks a rate limit service as a worker of Envoy does: one connection, one loop, requests made ready together and
// written together, and no goroutine for each. It shares the machine with the services, and a client of grpc-go takes more of
// it than the fastest of them, so that it would be the client that is compared. All services get the same bytes.
type envoyClient struct {
	conn     net.Conn
	in       *bufio.Reader
	out      *bufio.Writer
	frames   *http2.Framer
	requests []*envoyMessage
	opened   uint32 // how many streams were
	open     map[uint32]time.Time
	answered map[uint32]bool // those of open whose answer came
	received int64           // bytes of data, which the window bounds
}

// envoyMessage is a request in frames, complete but for the number of its stream.
type envoyMessage struct {
	bytes bytes.Buffer
	data  int // where the second frame begins
}

// number writes the stream's number into both frames.
func (m *envoyMessage) number(stream uint32) {
	const at = 5 // in a frame
	binary.BigEndian.PutUint32(m.bytes.Bytes()[at:], stream)
	binary.BigEndian.PutUint32(m.bytes.Bytes()[m.data+at:], stream)
}

// admittedByEnvoy is how an answer begins that admits: its first field is 1.
var admittedByEnvoy = []byte{0x08, 0x01}

const (
	envoyKeys     = 4096    // clients that the requests tell of, so that not all decisions are about one count
	envoyWindow   = 1 << 30 // bytes that a service may send before it is told to go on
	messagePrefix = 5       // of gRPC: compressed or not, and the length
)

// dialEnvoy connects to a service, to ask about as many clients as there are keys.
func dialEnvoy(addr string, keys int) (*envoyClient, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &envoyClient{
		conn: conn, in: bufio.NewReaderSize(conn, 1<<16), out: bufio.NewWriterSize(conn, 1<<16),
		open: map[uint32]time.Time{}, answered: map[uint32]bool{},
	}
	c.frames = http2.NewFramer(c.out, c.in)
	c.frames.SetReuseFrames()
	if err := c.prepare(addr, keys); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	_, err = io.WriteString(c.out, http2.ClientPreface)
	if err == nil {
		err = c.frames.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 0})
	}
	if err == nil {
		err = c.frames.WriteWindowUpdate(0, envoyWindow)
	}
	if err == nil {
		err = c.out.Flush()
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// prepare makes the requests ready. The first names all headers; the others refer to them, as clients of HTTP/2 do.
func (c *envoyClient) prepare(addr string, keys int) error {
	var headers bytes.Buffer
	fields := hpack.NewEncoder(&headers)
	for i := range 1 + keys {
		headers.Reset()
		for _, field := range [][2]string{
			{":method", "POST"}, {":scheme", "http"}, {":path", rls.RateLimitService_ShouldRateLimit_FullMethodName}, {":authority", addr},
			{"content-type", "application/grpc"}, {"te", "trailers"}, {"grpc-timeout", "5S"},
		} {
			if err := fields.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
				return err
			}
		}
		message, err := proto.Marshal(envoyRequest("ample", fmt.Sprintf("client-%d", i%keys)))
		if err != nil {
			return err
		}
		made := &envoyMessage{}
		frames := http2.NewFramer(&made.bytes, nil)
		if err := frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headers.Bytes(), EndHeaders: true}); err != nil {
			return err
		}
		made.data = made.bytes.Len()
		data := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
		if err := frames.WriteData(1, true, append(data, message...)); err != nil {
			return err
		}
		c.requests = append(c.requests, made)
	}
	return nil
}

// ask opens a stream for the next request.
func (c *envoyClient) ask() error {
	c.opened++
	stream := 2*c.opened - 1 // those of a client are odd
	request := c.requests[0]
	if c.opened > 1 {
		request = c.requests[1+int(c.opened)%(len(c.requests)-1)]
	}
	request.number(stream)
	c.open[stream] = time.Now()
	_, err := c.out.Write(request.bytes.Bytes())
	return err
}

// run asks for a length of time, with as many requests open at once as there are callers, and tells how long each took.
func (c *envoyClient) run(callers int, length time.Duration) (took histogram, err error) {
	end := time.Now().Add(length)
	if err := c.conn.SetDeadline(end.Add(10 * time.Second)); err != nil {
		return took, err
	}
	for range callers {
		if err := c.ask(); err != nil {
			return took, err
		}
	}
	for len(c.open) > 0 {
		if c.in.Buffered() == 0 { // all that came was read: let all that was made ready go
			if err := c.out.Flush(); err != nil {
				return took, err
			}
		}
		ended, err := c.read()
		if err != nil {
			return took, err
		}
		if ended == 0 {
			continue
		}
		now := time.Now()
		took.add(now.Sub(c.open[ended]))
		delete(c.open, ended)
		if now.Before(end) {
			if err := c.ask(); err != nil {
				return took, err
			}
		}
	}
	return took, nil
}

// read reads a frame, and returns the number of the stream that it ends; 0 if it ends none.
func (c *envoyClient) read() (ended uint32, err error) {
	frame, err := c.frames.ReadFrame()
	if err != nil {
		return 0, err
	}
	switch f := frame.(type) {
	case *http2.DataFrame:
		if data := f.Data(); len(data) < messagePrefix || !bytes.HasPrefix(data[messagePrefix:], admittedByEnvoy) {
			return 0, fmt.Errorf("a request that has to be admitted was answered %x", data)
		}
		c.answered[f.StreamID] = true
		if c.received += int64(f.Length); c.received > envoyWindow/2 {
			err = c.frames.WriteWindowUpdate(0, uint32(c.received))
			c.received = 0
		}
		return 0, err
	case *http2.HeadersFrame:
		if !f.StreamEnded() {
			return 0, nil
		}
		if !c.answered[f.StreamID] {
			return 0, errors.New("a request was not answered but with a status") // it is in the headers, which are not read
		}
		delete(c.answered, f.StreamID)
		return f.StreamID, nil
	case *http2.SettingsFrame:
		if !f.IsAck() {
			err = c.frames.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			err = c.frames.WritePing(true, f.Data)
		}
	case *http2.RSTStreamFrame:
		err = fmt.Errorf("the service reset a request: %v", f.ErrCode)
	case *http2.GoAwayFrame:
		err = fmt.Errorf("the service closed the connection: %v", f.ErrCode)
	}
	return 0, err
}
