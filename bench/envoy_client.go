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

// envoyClient calls a rate limit service as a worker of Envoy does: one connection, one loop, requests prepared and written
// together, and no goroutine per request. It shares the machine with the services, and a grpc-go client uses more CPU than the
// fastest of them, so the client would dominate the comparison. All services get the same bytes.
type envoyClient struct {
	conn     net.Conn
	in       *bufio.Reader
	out      *bufio.Writer
	frames   *http2.Framer
	requests []*envoyMessage
	opened   uint32 // number of streams opened
	open     map[uint32]time.Time
	answered map[uint32]bool // open streams whose response arrived
	received int64           // bytes of data, bounded by the window
}

// envoyMessage is a request in frames, complete except for the number of its stream.
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

// admittedByEnvoy is the beginning of a response that admits: its first field is 1.
var admittedByEnvoy = []byte{0x08, 0x01}

const (
	envoyKeys     = 4096    // different clients in the requests, so that not all decisions are about one count
	envoyWindow   = 1 << 30 // bytes that a service may send before a window update
	messagePrefix = 5       // of gRPC: compressed or not, and the length
)

// dialEnvoy connects to a service and prepares requests for the given number of clients.
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

// prepare encodes the requests. The first contains all headers; the others refer to them, as HTTP/2 clients do.
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

// sendNext opens a stream with the next request.
func (c *envoyClient) sendNext() error {
	c.opened++
	stream := 2*c.opened - 1 // client streams have odd numbers
	request := c.requests[0]
	if c.opened > 1 {
		request = c.requests[1+int(c.opened)%(len(c.requests)-1)]
	}
	request.number(stream)
	c.open[stream] = time.Now()
	_, err := c.out.Write(request.bytes.Bytes())
	return err
}

// run sends requests for the given time, with one open request per caller, and returns how long they took.
func (c *envoyClient) run(callers int, length time.Duration) (took histogram, err error) {
	end := time.Now().Add(length)
	if err := c.conn.SetDeadline(end.Add(10 * time.Second)); err != nil {
		return took, err
	}
	for range callers {
		if err := c.sendNext(); err != nil {
			return took, err
		}
	}
	for len(c.open) > 0 {
		if c.in.Buffered() == 0 { // everything received has been read: flush the prepared requests
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
			if err := c.sendNext(); err != nil {
				return took, err
			}
		}
	}
	return took, nil
}

// read reads a frame, and returns the number of the stream that it ends, or 0.
func (c *envoyClient) read() (ended uint32, err error) {
	frame, err := c.frames.ReadFrame()
	if err != nil {
		return 0, err
	}
	switch f := frame.(type) {
	case *http2.DataFrame:
		if data := f.Data(); len(data) < messagePrefix || !bytes.HasPrefix(data[messagePrefix:], admittedByEnvoy) {
			return 0, fmt.Errorf("unexpected response %x; want the request admitted", data)
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
			return 0, errors.New("the response is only a status") // the status is in the headers, which are not decoded
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
