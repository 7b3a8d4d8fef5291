#!/usr/bin/env python3
"""Prints a store as interchange lines: read_log.py [--frames] STORE

An independent reader of the log, written from the specification beside it (README.md, segment.md, frame.md,
delta.md) and nothing else, with the standard library only. Data goes to stdout, one JSON object a line; what is to be
said about the store goes to stderr.

--frames also prints a line for each frame before those of its deltas, and a last line with the verdict.

Exit codes: 0 read to the end (an unclean end is reported and is no failure), 1 not a store or of a newer
format, 2 usage, 3 damage: what stands before it was printed.

Everything is checked except the xxh3-128 digest in a seal: every byte below it is covered by the checksum of a frame already.
"""

import json
import os
import re
import struct
import sys
import zlib
from datetime import datetime, timedelta, timezone

VERSION = 1
FRAMES_START = 4096
HEADER_COPIES = (0, 2048)
PAYLOAD_MAX = 1 << 30
WIDTH_MAX = 65536
TIME_MAX = 253402207200999999

COMMIT, CLOSE, SEAL, BASE, LOST = 1, 2, 3, 4, 5
FRAME_KINDS = {COMMIT: "commit", CLOSE: "close", SEAL: "seal", BASE: "base", LOST: "lost"}

NOTES, VECTOR, EPISODIC, WORKING, ORIGIN = 1, 2, 3, 4, 5
HANDLE_KINDS = {NOTES: "notes", VECTOR: "vector", EPISODIC: "episodic", WORKING: "working"}

PUT, REMOVE, CLEAR, CONFIGURE, SNAPSHOT, ORIGIN_CLASS = 1, 2, 3, 4, 5, 6
CLASSES = {PUT: "put", REMOVE: "remove", CLEAR: "clear", CONFIGURE: "configure", SNAPSHOT: "snapshot"}

ERASED, ITEM, CONTINUES = 1, 2, 4

OPERATIONS = {
    (PUT, NOTES): "remember", (PUT, VECTOR): "upsert", (PUT, EPISODIC): "record", (PUT, WORKING): "push",
    (REMOVE, NOTES): "forget", (REMOVE, VECTOR): "delete",
    (CLEAR, VECTOR): "clear", (CLEAR, EPISODIC): "clear", (CLEAR, WORKING): "clear",
    (CONFIGURE, VECTOR): "configure", (CONFIGURE, EPISODIC): "configure", (CONFIGURE, WORKING): "configure",
    (SNAPSHOT, NOTES): "snapshot", (SNAPSHOT, VECTOR): "snapshot",
    (SNAPSHOT, EPISODIC): "snapshot", (SNAPSHOT, WORKING): "snapshot",
}

SEGMENT_NAME = re.compile(r"([0-9]{20})\.seg")
BASE_NAME = re.compile(r"([0-9]{20})\.([1-9][0-9]*)\.base")


class Bad(Exception):
    """Bytes that are not what the format says."""


class Newer(Exception):
    """A file of a later format version."""

    def __init__(self, version):
        super().__init__(f"format version {version}; this reader knows {VERSION}")
        self.version = version


class NotAStore(Exception):
    pass


class Damaged(Exception):
    def __init__(self, file, offset, frame, what):
        super().__init__(what)
        self.file, self.offset, self.frame, self.what = file, offset, frame, what


# ---- postcard ------------------------------------------------------------------------------------------


class Body:
    """Reads the fields of a postcard value."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        if count > len(self.data) - self.at:
            raise Bad("the body ends early")
        self.at += count
        return self.data[self.at - count:self.at]

    def byte(self):
        return self.take(1)[0]

    def varint(self, bits):
        longest = -(-bits // 7)
        value = 0
        for place in range(longest):
            byte = self.byte()
            value |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                if value >> bits:
                    raise Bad("a number is out of range")
                return value
        raise Bad("a number is too long")

    def u32(self):
        return self.varint(32)

    def u64(self):
        return self.varint(64)

    def i64(self):
        value = self.u64()
        return -(value >> 1) - 1 if value & 1 else value >> 1

    def string(self):
        return utf8(self.take(self.u64()))

    def option(self, read):
        tag = self.byte()
        if tag > 1:
            raise Bad("an option is neither there nor not")
        return read() if tag else None

    def sequence(self, read):
        return [read() for _ in range(self.u64())]

    def ended(self):
        return self.at == len(self.data)

    def end(self):
        if not self.ended():
            raise Bad("the body goes on behind its end")


def utf8(data):
    try:
        return bytes(data).decode("utf-8")
    except UnicodeDecodeError:
        raise Bad("text is not UTF-8") from None


# ---- small files and headers ---------------------------------------------------------------------------


def crc_without(data, at, begin=b""):
    """crc32 of `begin` and then `data` without the four bytes at `at`."""
    return zlib.crc32(data[at + 4:], zlib.crc32(data[:at], zlib.crc32(begin)))


def begin(data, magic):
    """Checks magic, checksum and version, which stand at the same places in every file."""
    if len(data) < 16 or data[:8] != magic:
        raise Bad("it does not begin with " + magic.decode())
    version, crc = struct.unpack_from("<II", data, 8)
    if crc != crc_without(data, 12):
        raise Bad("the header's checksum is wrong")
    if version > VERSION:
        raise Newer(version)
    if version != VERSION:
        raise Bad(f"there is no format version {version}")


def in_range(time):
    if time > TIME_MAX:
        raise Bad("a time is out of range")
    return time


class Header:
    def __init__(self, data):
        if len(data) < 64:
            raise Bad("the file is too short for its header")
        begin(data, b"MNEMOLOG")
        self.store = data[16:32]
        self.first, salt, self.previous_nonce, created = struct.unpack_from("<QQQQ", data, 32)
        in_range(created)
        self.salt = salt
        self.seed = data[40:48]


def header_of(file):
    """The header from whichever copy serves."""
    problem = None
    for offset in HEADER_COPIES:
        try:
            return Header(file[offset:offset + 64])
        except Newer as newer:
            problem = newer
        except Bad as bad:
            problem = problem or bad
    raise problem


def durable_of(root):
    """The promise as (store id, frame), or None: what does not check out promises nothing. A newer one is no torn one."""
    try:
        data = read_file(os.path.join(root, "DURABLE"))[:64]
        if len(data) < 64:
            return None
        begin(data, b"MNEMDURA")
        return (data[16:32], struct.unpack_from("<Q", data, 32)[0]) if struct.unpack_from("<Q", data, 56)[0] <= 1 else None
    except (FileNotFoundError, Bad):
        return None


def plain(name):
    if name in ("", ".", "..") or any(c in name for c in "/\\\0"):
        raise Bad("a name in it is not that of a file")
    return name


def store_of(directory, names):
    """The store that the files of the log belong to, or None: the first by name says it whose header serves."""
    for name in sorted(filter(is_log_name, names)):
        try:
            return header_of(read_file(os.path.join(directory, name))[:FRAMES_START]).store
        except (Bad, Newer):
            pass
    return None


def intent_of(root, store):
    """The change under way as (moves, names dropped from log/), or None."""
    try:
        data = read_file(os.path.join(root, "INTENT"))
    except FileNotFoundError:
        return None
    begin(data, b"MNEMINTE")
    if store is not None and data[16:32] != store:
        raise Bad("it belongs to another store")
    body = Body(data[32:])
    body.u64()
    moves = body.sequence(lambda: (plain(body.string()), plain(body.string()), body.u64()))
    drops = body.sequence(lambda: (body.string(), plain(body.string())))
    body.end()
    if any(directory not in ("log", "checkpoints", "quarantine") for directory, _ in drops):
        raise Bad("it drops from a directory that it must not touch")
    return moves, {name for directory, name in drops if directory == "log"}


def read_file(path):
    with open(path, "rb") as file:
        return file.read()


# ---- the files of the log ------------------------------------------------------------------------------


class LogFile:
    """A name in the log, the file that holds it, and the salt that it must have, if one was stated."""

    def __init__(self, name, holder, salt=None):
        self.name, self.holder, self.salt = name, holder, salt
        base, segment = BASE_NAME.fullmatch(name), SEGMENT_NAME.fullmatch(name)
        self.is_base = bool(base)
        self.first = int((base or segment)[1])
        self.part = int(base[2]) if base else 0
        self.order = (0 if base else 1, self.first, self.part)


def files_of(root):
    """The files of the log, in order, and what is wrong with INTENT, if anything is: then files are taken as they are named."""
    directory = os.path.join(root, "log")
    present = set(os.listdir(directory)) if os.path.isdir(directory) else set()
    unsound = None
    try:
        moves, drops = intent_of(root, store_of(directory, present)) or ([], set())
    except Bad as bad:
        moves, drops, unsound = [], set(), str(bad)
    moved = {target for _, target, _ in moves}
    files = [LogFile(name, name) for name in present - drops - moved if is_log_name(name)]
    for temporary, target, salt in moves:
        if is_log_name(target):
            files.append(LogFile(target, temporary if temporary in present else target, salt))
    if not files and not os.path.exists(os.path.join(root, "DURABLE")):
        raise NotAStore(f"{root} is not a store: it holds no log")
    return sorted(files, key=lambda file: file.order), unsound


def is_log_name(name):
    base, segment = BASE_NAME.fullmatch(name), SEGMENT_NAME.fullmatch(name)
    if not (base or segment) or int((base or segment)[1]) >> 64:
        return False
    return not base or not int(base[2]) >> 32


# ---- frames --------------------------------------------------------------------------------------------


class Frame:
    """A frame whose checksum is right; rules 1 to 4."""

    def __init__(self, file, offset, seed):
        if len(file) - offset < 48:
            raise Bad("the file ends in the frame's header")
        (length, self.crc, self.number, own_offset, self.previous_crc, self.durable, self.time, self.kind, reserved,
         self.delta_count, self.writer) = struct.unpack_from("<IIQIIQQBBHI", file, offset)
        if length > PAYLOAD_MAX:
            raise Bad("the payload is longer than 1 GiB")
        if own_offset != offset:
            raise Bad(f"the frame says that it stands at byte {own_offset}")
        in_range(self.time)
        if self.kind not in FRAME_KINDS:
            raise Bad(f"there is no frame kind {self.kind}")
        if reserved:
            raise Bad("the reserved byte is not zero")
        self.offset, self.end = offset, offset + 48 + -(-length // 8) * 8
        if self.end > len(file):
            raise Bad("the file ends in the frame")
        whole = file[offset:self.end]
        if self.crc != crc_without(whole, 4, seed):
            raise Bad("the frame's checksum is wrong")
        self.payload = whole[48:48 + length]
        if any(whole[48 + length:]):
            raise Bad("the padding is not zero")
        if (self.delta_count > 0) != (self.kind in (COMMIT, BASE)):
            raise Bad("the delta count does not fit the kind")


class Log:
    """The state of the walk: what the next frame must follow."""

    def __init__(self, durable, out):
        self.durable, self.out = durable, out
        self.number = self.time = self.nonce = 0
        self.store = None

    def promised(self):
        """The frame that DURABLE promises for this store."""
        return self.durable[1] if self.durable and self.durable[0] == self.store else 0

    def enter(self, header, ordinal, file, before):
        """Rules 1 to 3 of the order of the log."""
        if self.store is None:
            self.store = header.store
        if file.salt is not None and file.salt != header.salt:
            raise Bad("the salt is not the one that INTENT states")
        if header.store != self.store:
            raise Bad("the file belongs to another store")
        if header.first != file.first:
            raise Bad("the header's first frame is not the one in the name")
        if header.previous_nonce != self.nonce:
            raise Bad("the file does not continue the one before it")
        if file.is_base:
            if file.part != ordinal + 1 or (before and before.first != file.first):
                raise Bad("a part of the base is missing")
            self.number = file.first - 1
        elif file.first != self.number + 1:
            raise Bad(f"frame {self.number + 1} should be the first one")

    def follow(self, frame, previous_crc, file, count):
        """Rules 5 to 8; answers the lines of the frame."""
        kind = frame.kind
        if kind != SEAL and (kind == BASE) != file.is_base:
            raise Bad(f"a {FRAME_KINDS[kind]} does not belong in this file")
        if frame.previous_crc != previous_crc:
            raise Bad("the frame does not follow the one before it")
        number, extra = self.number, {}
        if kind == COMMIT:
            number += 1
        elif kind == LOST:
            if len(frame.payload) != 16:
                raise Bad("the lost range has another length")
            first, number = struct.unpack("<QQ", frame.payload)
            if first != self.number + 1 or number < first:
                raise Bad("the lost range does not begin with the next frame")
            extra = {"first": first, "last": number}
        if frame.number != number:
            raise Bad(f"frame {number} should stand here, not {frame.number}")
        if frame.time < self.time:
            raise Bad("the time goes back")
        if kind == CLOSE and frame.payload:
            raise Bad("a close has a payload")
        if kind == SEAL:
            extra = self.seal(frame, count)
        lines = list(deltas_of(frame, file)) if kind in (COMMIT, BASE) else []
        if kind == SEAL:
            self.nonce = extra["nonce"]
        self.number, self.time = number, frame.time
        return extra, lines

    @staticmethod
    def seal(frame, count):
        if len(frame.payload) != 32:
            raise Bad("the seal has another length")
        frames, digest, nonce = struct.unpack("<Q16sQ", frame.payload)
        if not nonce:
            raise Bad("the seal has no nonce")
        if frames != count:
            raise Bad(f"the seal counts {frames} frames where {count} are")
        return {"frames": frames, "digest": digest[::-1].hex(), "nonce": nonce}

    def walk(self, file, data, seed):
        """Prints the frames of a file. Answers where they end, whether in a seal, and what stopped them."""
        offset, previous_crc, count = FRAMES_START, 0, 0
        while True:
            if not any(data[offset:offset + 48]):
                return offset, False, None
            try:
                frame = Frame(data, offset, seed)
                extra, lines = self.follow(frame, previous_crc, file, count)
            except Bad as bad:
                return offset, False, str(bad)
            self.out.frame(file, frame, extra, lines)
            offset, previous_crc, count = frame.end, frame.crc, count + 1
            if frame.kind == SEAL:
                return offset, True, None

    def verdict(self, file, data, seed, offset, sealed, problem):
        """The end of the last file: clean, unclean, or damage."""
        missing = self.number + 1
        what = problem or f"frame {missing} should stand here, and nothing does"
        if file.is_base:
            raise Damaged(file.name, offset, missing, problem or "the log ends in a base")
        if self.promised() >= missing:
            raise Damaged(file.name, offset, missing, f"{what}, and DURABLE promises frame {self.promised()}")
        if sealed:
            return "clean", None
        for at in range(offset, len(data) - 47, 8):
            # The offset in a header rules out almost every place before a checksum is computed.
            if int.from_bytes(data[at + 16:at + 20], "little") != at:
                continue
            try:
                later = Frame(data, at, seed)
            except Bad:
                continue
            if later.durable >= missing:
                raise Damaged(file.name, offset, missing,
                              f"{what}, and a frame at byte {at} promises frame {later.durable}")
        return ("unclean", what) if any(data[offset:]) else ("clean", None)


# ---- deltas --------------------------------------------------------------------------------------------


class Envelope:
    def __init__(self, payload, at, seed):
        if len(payload) - at < 40:
            raise Bad("the payload ends in an envelope's header")
        (length, crc, self.kind, self.cls, self.flags, id_length, self.tokens, self.previous_index,
         self.previous_frame, width, reserved) = struct.unpack_from("<IIBBHIIIQII", payload, at)
        self.end = at + -(-length // 8) * 8
        if length < 40 or self.end > len(payload):
            raise Bad("an envelope does not fit its frame")
        whole = payload[at:at + length]
        if crc != crc_without(whole, 4, seed):
            raise Bad("an envelope's checksum is wrong")
        if any(payload[at + length:self.end]):
            raise Bad("the padding of an envelope is not zero")
        if reserved or self.flags & ~(ERASED | ITEM | CONTINUES):
            raise Bad("an envelope has unknown flags or reserved bytes in use")
        body_at = 40 + 4 * width + id_length
        if width > WIDTH_MAX or body_at > length:
            raise Bad("an embedding or a handle id does not fit its envelope")
        self.width, self.embedding = width, whole[40:40 + 4 * width]
        self.id = utf8(whole[40 + 4 * width:body_at])
        self.body = whole[body_at:]
        self.check()

    def check(self):
        if self.kind == ORIGIN or self.cls == ORIGIN_CLASS:
            bare = not (self.flags & ~ERASED or self.tokens or self.previous_index or self.previous_frame or self.width
                        or self.id)
            if (self.kind, self.cls) != (ORIGIN, ORIGIN_CLASS) or not bare:
                raise Bad("an origin is more than an origin")
            if self.flags & ERASED and any(self.body):
                raise Bad("an erased origin holds something")
            return
        if (self.cls, self.kind) not in OPERATIONS:
            raise Bad(f"there is no operation of class {self.cls} on handles of kind {self.kind}")
        if self.width and (self.cls, self.kind) != (PUT, VECTOR):
            raise Bad("an embedding stands where there can be none")
        if self.tokens and (self.cls, self.kind) != (PUT, WORKING):
            raise Bad("a token cost stands where there can be none")
        if self.flags & ITEM and self.cls != PUT:
            raise Bad("an item does not put")
        if self.flags & CONTINUES and (self.cls != SNAPSHOT or self.flags & ERASED):
            raise Bad("something continues that is no snapshot")
        if self.flags & ERASED and (any(self.body) or any(self.embedding)):
            raise Bad("an erased delta holds something")

    def operation(self):
        """The operation's name, its args as JSON text, and the number of items of a snapshot."""
        if self.flags & ERASED:
            args = {"class": quoted(CLASSES[self.cls])}
            if self.tokens:
                args["tokens"] = str(self.tokens)
            return "erased", joined(args), None
        name = OPERATIONS[self.cls, self.kind]
        body, items = Body(self.body), None
        if name == "snapshot":
            args, items = configuration(body, self.kind), body.u64()
        elif name == "configure":
            args = configuration(body, self.kind)
        else:
            args = getattr(self, name)(body)
        body.end()
        return name, joined(args), items

    def remember(self, body):
        args = {"key": quoted(body.string())}
        summary = body.option(body.string)
        if summary is not None:
            args["summary"] = quoted(summary)
        choice = body.u32()
        if choice > 1:
            raise Bad("a body is neither text nor JSON")
        text = body.string()
        args["body"] = value(text) if choice else quoted(text)
        return args

    def forget(self, body):
        return {"key": quoted(body.string())}

    def upsert(self, body):
        args = {"id": quoted(body.string()), "text": quoted(body.string()), "metadata": value(body.string())}
        floats = struct.unpack(f"<{self.width}f", self.embedding)
        if any(x != x or x in (float("inf"), float("-inf")) for x in floats):
            raise Bad("an embedding is not finite")
        # Python widens to binary64 exactly, and repr is the shortest text that reads back as the same.
        args["embedding"] = "[" + ",".join(map(repr, floats)) + "]"
        return args

    def delete(self, body):
        return {"id": quoted(body.string())}

    def record(self, body):
        args = {"key": quoted(body.string()), "value": value(body.string()), "timestamp_ms": str(body.i64())}
        self.evicted(body)
        return args

    def push(self, body):
        args = {"label": quoted(body.string()), "content": quoted(body.string()), "tokens": str(self.tokens)}
        self.evicted(body)
        return args

    def evicted(self, body):
        """What the delta pushed out follows from the state, and is in no line."""
        if not self.flags & ITEM and not body.ended():
            if not body.sequence(lambda: (body.u64(), body.u32())):
                raise Bad("a delta evicts nothing and says so")

    def clear(self, _):
        return {}


def configuration(body, kind):
    choice = body.u32()
    if choice + 1 != kind:
        raise Bad("a configuration is of another kind of handle")
    if kind == NOTES:
        return {}
    if kind == VECTOR:
        read = lambda: joined({
            "name": quoted(body.string()), "model": quoted(body.string()), "dim": str(body.u32())})
        return {"embedder": body.option(read) or "null"}
    limit = body.option(body.u64)
    return {"max" if kind == EPISODIC else "budget": "null" if limit is None else str(limit)}


def origin_of(envelope):
    if envelope.flags & ERASED:
        return None
    body = Body(envelope.body)
    fields = {name: body.option(body.string) for name in ("agent", "session", "tool")}
    body.end()
    return joined({name: quoted(text) for name, text in fields.items() if text is not None})


def deltas_of(frame, file):
    """The lines of a frame's deltas."""
    origin, head, count, at = None, None, 0, 0
    while at < len(frame.payload):
        envelope = Envelope(frame.payload, at, file.seed)
        if envelope.kind == ORIGIN:
            if at:
                raise Bad("an origin does not come first")
            origin = origin_of(envelope)
        elif envelope.flags & ITEM:
            if head is None:
                raise Bad("an item stands without its snapshot")
            head.item(envelope)
        else:
            if head:
                yield head.line()
            count += 1
            head = Head(frame, envelope, origin)
        at = envelope.end
    if head:
        yield head.line()
    if count != frame.delta_count:
        raise Bad(f"the frame has {count} deltas where its header says {frame.delta_count}")


class Head:
    """A delta, and the items that follow if it is a snapshot."""

    def __init__(self, frame, envelope, origin):
        self.frame, self.envelope, self.origin = frame, envelope, origin
        self.op, self.args, self.due = envelope.operation()
        self.items = []

    def item(self, envelope):
        if (envelope.kind, envelope.id) != (self.envelope.kind, self.envelope.id) or self.envelope.cls != SNAPSHOT:
            raise Bad("an item stands behind something else than its snapshot")
        op, args, _ = envelope.operation()
        if self.due is None and op != "erased":
            raise Bad("an item was left behind by an erased snapshot")
        self.items.append(joined({"erased": args}) if op == "erased" else args)

    def line(self):
        fields = {"frame": str(self.frame.number), "time": quoted(rfc3339(self.frame.time))}
        if self.origin is not None:
            fields["origin"] = self.origin
        if self.frame.kind == BASE:
            fields["base"] = "true"
        args = self.args
        if self.due is not None:
            if len(self.items) != self.due:
                raise Bad(f"a snapshot has {len(self.items)} items where its head says {self.due}")
            args = joined({"config": self.args, "items": "[" + ",".join(self.items) + "]"})
        fields |= {"handle_kind": quoted(HANDLE_KINDS[self.envelope.kind]), "handle_id": quoted(self.envelope.id),
                   "op": quoted(self.op), "args": args}
        return joined(fields)


# ---- JSON ----------------------------------------------------------------------------------------------


def refuse(constant):
    raise Bad(f"{constant} is not JSON")


def value(text):
    """A JSON value as it stands, so that its numbers keep their digits; checked first."""
    try:
        json.loads(text, parse_int=len, parse_float=len, parse_constant=refuse)
    except (ValueError, RecursionError):
        raise Bad("a JSON value is not JSON") from None
    return text


def quoted(text):
    return json.dumps(text, ensure_ascii=False)


def joined(fields):
    return "{" + ",".join(f"{quoted(name)}:{text}" for name, text in fields.items()) + "}"


def rfc3339(time):
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=time)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond:06}Z"


class Output:
    def __init__(self, frames):
        self.frames = frames

    def frame(self, file, frame, extra, lines):
        if self.frames:
            self.line({"file": file.name, "offset": frame.offset, "kind": FRAME_KINDS[frame.kind],
                       "number": frame.number, "time": rfc3339(frame.time), "durable": frame.durable,
                       "writer": frame.writer, "deltas": frame.delta_count} | extra)
        for line in lines:
            print(line)

    def end(self, verdict, **fields):
        if self.frames:
            self.line({"end": verdict} | fields)

    @staticmethod
    def line(fields):
        print(json.dumps(fields, ensure_ascii=False))


# ---- the whole log -------------------------------------------------------------------------------------


def read(root, out):
    """Prints a store; answers the exit code."""
    about = "INTENT"
    try:
        files, unsound = files_of(root)
        about = "DURABLE"
        durable = durable_of(root)
    except Newer as newer:
        say(f"{about} has {newer}; use a newer reader")
        out.end("newer", file=about, version=newer.version)
        return 1
    log = Log(durable, out)
    if not files:
        if unsound:
            raise Damaged("INTENT", 0, 0, unsound)
        if durable and durable[1]:
            raise Damaged("log", 0, 1, f"DURABLE promises frame {durable[1]}, and the log has no file")
        raise NotAStore(f"{root} is not a store yet: its log has no file")
    newer = newer_of(root, files)
    if newer:
        file, version = newer
        say(f"{file.name} has {version}; use a newer reader")
        out.end("newer", file=file.name, version=version.version)
        return 1
    for ordinal, file in enumerate(files):
        last = ordinal + 1 == len(files)
        try:
            data = read_file(os.path.join(root, "log", file.holder))
            header = header_of(data)
            log.enter(header, ordinal, file, files[ordinal - 1] if ordinal else None)
        except (Bad, FileNotFoundError) as bad:
            raise Damaged(file.name, 0, log.number + 1, str(bad)) from None
        file.seed = header.seed
        offset, sealed, problem = log.walk(file, data, header.seed)
        if not last and not sealed:
            raise Damaged(file.name, offset, log.number + 1, problem or "the file ends without a seal and is not the last")
    verdict, what = log.verdict(file, data, header.seed, offset, sealed, problem)
    if unsound:
        raise Damaged("INTENT", 0, log.number + 1, unsound)
    if verdict == "unclean":
        say(f"{file.name}: unclean end at byte {offset}, after frame {log.number}: {what}; nothing promised more")
    out.end(verdict, file=file.name, offset=offset, frame=log.number)
    return 0


def newer_of(root, files):
    """The first file of a newer format and its version: then nothing is printed of the others either."""
    for file in files:
        try:
            with open(os.path.join(root, "log", file.holder), "rb") as opened:
                header_of(opened.read(FRAMES_START))
        except Newer as newer:
            return file, newer
        except (Bad, FileNotFoundError):
            continue
    return None


def say(text):
    print(f"read_log: {text}", file=sys.stderr)


def main(arguments):
    frames = "--frames" in arguments
    paths = [argument for argument in arguments if argument != "--frames"]
    if len(paths) != 1 or paths[0].startswith("-"):
        say("usage: read_log.py [--frames] STORE")
        return 2
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    out = Output(frames)
    try:
        if not os.path.isdir(paths[0]):
            raise NotAStore(f"{paths[0]} is not a store: there is no such directory")
        return read(paths[0], out)
    except NotAStore as problem:
        say(problem)
        return 1
    except Damaged as damage:
        say(f"{damage.file}: damaged at byte {damage.offset}, where frame {damage.frame} should be readable: {damage.what}")
        out.end("damaged", file=damage.file, offset=damage.offset, frame=damage.frame, what=damage.what)
        return 3


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
