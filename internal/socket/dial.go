package socket

import (
	"context"
	"net"
	"time"
)

// dialTime bounds the making of a connection.
const dialTime = 5 * time.Second

// Dial connects as a net.Dialer does, for 5 s at most, and calms the connection.
func Dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTime}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return Calm(conn), nil
}
