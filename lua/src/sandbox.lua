-- Closes the globals for scripts. Runs once, before any script, with what scripts must not have.
local server, libraries, tools, setreadonly = ...

local error, tostring, collectgarbage = error, tostring, collectgarbage
local xpcall, describe = tools.xpcall, tools.describe

local allowed = {}
for name in ([[_G _VERSION assert bit cjson cmsgpack collectgarbage coroutine error gcinfo getmetatable ipairs load
    loadstring math next os pairs pcall rawequal rawget rawset redis select server setmetatable string struct table
    tonumber tostring type unpack xpcall]]):gmatch("%S+") do
    allowed[name] = true
end
for name in pairs(_G) do
    if not allowed[name] then _G[name] = nil end
end

_G.redis, _G.server = server, server
for name, library in pairs(libraries) do _G[name] = library end
os = { clock = tools.clock }
math.random, math.randomseed = tools.random, tools.randomseed

local measures = { collect = true, count = true, step = true }
function _G.collectgarbage(option, ...)
    if option == nil or measures[option] then return collectgarbage(option, ...) end
    return 0
end

setmetatable(_G, { __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end })
for _, part in ipairs({ redis, bit, cjson, cmsgpack, coroutine, math, os, string, struct, table }) do
    setreadonly(part, true)
end
setreadonly(getmetatable(""), true)
setreadonly(getmetatable(_G), true)
setreadonly(_G, true)

return function(f) return xpcall(f, describe) end
