# Sourced: starts a server as a process of its own, which ends with the shell that started it.
#   start_server BIN MODEL [FLAGS OF outrider-server]     sets `address`
readonly START_SECONDS=60

say() { printf '%s\n' "$*" >&2; }

server_log="$(mktemp)"
server=
end_server() {
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  rm -f "$server_log"
}
trap end_server EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

start_server() {
  local bin="$1" model="$2" tenths
  "$bin/outrider-server" --model "$model" --port 0 "${@:3}" >"$server_log" 2>&1 &
  server=$!
  # The server prints where it listens as soon as it can answer.
  for ((tenths = 0; tenths < START_SECONDS * 10; ++tenths)); do
    address="$(awk '$1 == "listening" {print $2}' "$server_log")"
    [ -n "$address" ] && return
    kill -0 "$server" 2>/dev/null || { say "the server ended before it was ready:"; cat "$server_log" >&2; exit 1; }
    sleep 0.1
  done
  say "the server was not ready within $START_SECONDS s:"
  cat "$server_log" >&2
  exit 1
}
