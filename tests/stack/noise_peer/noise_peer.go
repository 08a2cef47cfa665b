// The other end of a NNpsk0 handshake, by another implementation: github.com/flynn/noise. noise_interop_test.cpp
// builds and runs it.
//
//	noise_peer initiator|responder AESGCM|ChaChaPoly PSK PROLOGUE     (the last two in hex)
//
// Messages are lines of hex on its standard input and output. After the handshake it sends two messages, the second
// with the next key, and then takes two in the same way and prints what they say.
package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"

	"github.com/flynn/noise"
)

func must(err error) {
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

var input = bufio.NewReader(os.Stdin)

func read() []byte {
	line, err := input.ReadString('\n')
	must(err)
	message, err := hex.DecodeString(line[:len(line)-1])
	must(err)
	return message
}

func write(message []byte) { fmt.Println(hex.EncodeToString(message)) }

func main() {
	initiator := os.Args[1] == "initiator"
	cipher := noise.CipherAESGCM
	if os.Args[2] == "ChaChaPoly" {
		cipher = noise.CipherChaChaPoly
	}
	psk, err := hex.DecodeString(os.Args[3])
	must(err)
	prologue, err := hex.DecodeString(os.Args[4])
	must(err)
	state, err := noise.NewHandshakeState(noise.Config{
		CipherSuite:           noise.NewCipherSuite(noise.DH25519, cipher, noise.HashSHA256),
		Pattern:               noise.HandshakeNN,
		Initiator:             initiator,
		Prologue:              prologue,
		PresharedKey:          psk,
		PresharedKeyPlacement: 0,
	})
	must(err)
	var fromInitiator, fromResponder *noise.CipherState
	if initiator {
		message, _, _, err := state.WriteMessage(nil, nil)
		must(err)
		write(message)
		_, fromInitiator, fromResponder, err = state.ReadMessage(nil, read())
		must(err)
	} else {
		_, _, _, err := state.ReadMessage(nil, read())
		must(err)
		var message []byte
		message, fromInitiator, fromResponder, err = state.WriteMessage(nil, nil)
		must(err)
		write(message)
	}
	send, receive := fromInitiator, fromResponder
	if !initiator {
		send, receive = fromResponder, fromInitiator
	}
	for i, text := range []string{"from the other one", "and with its next key"} {
		if i > 0 {
			send.Rekey()
		}
		sealed, err := send.Encrypt(nil, []byte("header"), []byte(text))
		must(err)
		write(sealed)
	}
	for i := 0; i < 2; i++ {
		if i > 0 {
			receive.Rekey()
		}
		text, err := receive.Decrypt(nil, []byte("header"), read())
		must(err)
		write(text)
	}
}
